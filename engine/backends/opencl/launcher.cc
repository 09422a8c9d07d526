#include "engine/backends/opencl/launcher.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace upscaled::opencl {
namespace {

size_t RoundUpTo(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Halves the longest side until the group has at most `max_items`.
void ShrinkToFit(WorkSize& group, size_t max_items) {
  while (group[0] * group[1] * group[2] > max_items) {
    size_t& longest = *std::max_element(group.begin(), group.end());
    longest = std::max<size_t>(longest / 2, 1);
  }
}

}  // namespace

absl::StatusOr<Launcher> Launcher::Create(const Context& context, bool profile) {
  cl_int error = CL_SUCCESS;
  cl::CommandQueue queue(context.handle, context.device.handle,
                         profile ? CL_QUEUE_PROFILING_ENABLE : 0, &error);
  RETURN_IF_ERROR(ToStatus(error, "clCreateCommandQueue"));
  return Launcher(context.device.handle, std::move(queue), profile);
}

absl::StatusOr<Launcher::Prepared*> Launcher::Find(const KernelFunction& function) {
  Prepared& prepared = kernels_[{function.program(), function.name}];
  if (prepared.kernel() == nullptr) {
    cl_int error = CL_SUCCESS;
    cl::Kernel kernel(function.program, function.name, &error);
    RETURN_IF_ERROR(ToStatus(error, absl::StrCat("clCreateKernel ", function.name)));
    prepared.max_group = kernel.getWorkGroupInfo<CL_KERNEL_WORK_GROUP_SIZE>(device_, &error);
    RETURN_IF_ERROR(ToStatus(error, "clGetKernelWorkGroupInfo"));
    prepared.kernel = std::move(kernel);
  }
  return &prepared;
}

absl::Status Launcher::Enqueue(const Prepared& prepared, const WorkSize& items, WorkSize group) {
  ShrinkToFit(group, std::max<size_t>(prepared.max_group, 1));
  const cl::NDRange global(RoundUpTo(items[0], group[0]), RoundUpTo(items[1], group[1]),
                           RoundUpTo(items[2], group[2]));
  const cl_int error = queue_.enqueueNDRangeKernel(
      prepared.kernel, cl::NullRange, global, cl::NDRange(group[0], group[1], group[2]), nullptr,
      profile_ ? &events_.emplace_back(group, cl::Event()).second : nullptr);
  return ToStatus(error, "clEnqueueNDRangeKernel");
}

absl::StatusOr<std::vector<Launcher::Command>> Launcher::TakeCommands() {
  RETURN_IF_ERROR(ToStatus(queue_.finish(), "clFinish"));
  std::vector<Command> commands;
  for (const auto& [group, event] : events_) {
    cl_int error = CL_SUCCESS;
    const cl_ulong begin = event.getProfilingInfo<CL_PROFILING_COMMAND_START>(&error);
    RETURN_IF_ERROR(ToStatus(error, "clGetEventProfilingInfo"));
    const cl_ulong end = event.getProfilingInfo<CL_PROFILING_COMMAND_END>();
    commands.push_back({group, static_cast<double>(end - begin) * 1e-9});
  }
  events_.clear();
  return commands;
}

absl::StatusOr<double> Launcher::TakeSeconds() {
  ASSIGN_OR_RETURN(const std::vector<Command> commands, TakeCommands());
  double seconds = 0;
  for (const Command& command : commands) seconds += command.seconds;
  return seconds;
}

}  // namespace upscaled::opencl
