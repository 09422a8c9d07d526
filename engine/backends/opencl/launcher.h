// One command queue and its kernels: sets arguments and enqueues.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/opencl/cl.h"
#include "engine/backends/opencl/cl_status.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/tensor.h"
#include "engine/base/geometry.h"
#include "engine/base/status_macros.h"

namespace upscaled::opencl {

// A function of a compiled program.
struct KernelFunction {
  cl::Program program;
  const char* name = nullptr;
};

// Work-items by dimension: x, y, plane.
using WorkSize = std::array<size_t, 3>;

// The group of kernels with one work-item a pixel: nearly all of their time is memory's.
inline constexpr WorkSize kItemGroup = {32, 1, 1};

// Arguments as kernels take them: a tensor is its buffer and its rectangle.
inline cl_int4 ToInt4(const Rect& r) { return {{r.x, r.y, r.width, r.height}}; }
inline cl_int2 ToInt2(Size size) { return {{size.width, size.height}}; }

// In order: a later launch sees the results of earlier ones. Used by one thread at a time.
class Launcher {
 public:
  // `profile`: commands are timed by the device, see TakeCommands.
  static absl::StatusOr<Launcher> Create(const Context& context, bool profile);

  const cl::CommandQueue& queue() const { return queue_; }

  // Enqueues at least `items` work-items in groups of `group`, which is made smaller where the
  // kernel does not fit; kernels return at once in items that are too many.
  template <typename... Args>
  absl::Status Launch(const KernelFunction& function, const WorkSize& items, const WorkSize& group,
                      const Args&... args) {
    ASSIGN_OR_RETURN(Prepared * prepared, Find(function));
    cl_uint index = 0;
    cl_int error = CL_SUCCESS;
    const auto set = [&](const auto& arg) {
      if (error == CL_SUCCESS) error = SetArgument(prepared->kernel, index, arg);
    };
    (set(args), ...);
    RETURN_IF_ERROR(ToStatus(error, "clSetKernelArg"));
    return Enqueue(*prepared, items, group);
  }

  // A kernel that ran, and its time by the device's clock.
  struct Command {
    WorkSize group;
    double seconds = 0;
  };
  // With `profile`: the kernels enqueued since this was last called, in order. Waits for them.
  absl::StatusOr<std::vector<Command>> TakeCommands();
  // The time of all of them together.
  absl::StatusOr<double> TakeSeconds();

 private:
  struct Prepared {
    cl::Kernel kernel;
    size_t max_group = 0;
  };

  Launcher(const cl::Device& device, cl::CommandQueue queue, bool profile)
      : device_(device), queue_(std::move(queue)), profile_(profile) {}

  template <typename T>
  static cl_int SetArgument(cl::Kernel& kernel, cl_uint& index, const T& value) {
    if constexpr (requires { value.SetArguments(kernel, index); }) {
      return value.SetArguments(kernel, index);
    } else if constexpr (std::is_same_v<T, Tensor>) {
      const cl_int error = kernel.setArg(index++, value.buffer);
      return error == CL_SUCCESS ? kernel.setArg(index++, ToInt4(value.rect)) : error;
    } else if constexpr (std::is_same_v<T, Rect>) {
      return kernel.setArg(index++, ToInt4(value));
    } else if constexpr (std::is_same_v<T, Size>) {
      return kernel.setArg(index++, ToInt2(value));
    } else {
      static_assert(std::is_same_v<T, cl::Buffer> || std::is_same_v<T, cl_int> ||
                    std::is_same_v<T, cl_float>);
      return kernel.setArg(index++, value);
    }
  }

  absl::StatusOr<Prepared*> Find(const KernelFunction& function);
  absl::Status Enqueue(const Prepared& prepared, const WorkSize& items, WorkSize group);

  cl::Device device_;
  cl::CommandQueue queue_;
  bool profile_;
  std::vector<std::pair<WorkSize, cl::Event>> events_;
  // Kernel objects hold arguments and are of one thread. A program lives as long as its kernels.
  std::map<std::pair<cl_program, std::string_view>, Prepared> kernels_;
};

}  // namespace upscaled::opencl
