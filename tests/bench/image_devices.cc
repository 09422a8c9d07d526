#include "tests/bench/image_devices.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "tests/bench/image_kernels/cpu/image_kernels.h"
#include "tests/bench/image_kernels/reference/image_kernels.h"
#ifdef UPSCALED_BENCH_OPENCL
#include "tests/bench/image_kernels/opencl/image_kernels.h"
#endif
#ifdef UPSCALED_BENCH_CUDA
#include "tests/bench/image_kernels/cuda/image_kernels.h"
#endif

namespace upscaled::bench {
namespace {

absl::StatusOr<std::unique_ptr<ImageKernels>> CreateOnDevice(const std::string& device) {
#ifdef UPSCALED_BENCH_OPENCL
  if (device == "opencl" || absl::StartsWith(device, "opencl:")) {
    ASSIGN_OR_RETURN(const opencl::Device found, opencl::FindDevice(device));
    ASSIGN_OR_RETURN(auto context, opencl::Context::Create(found, std::nullopt));
    return opencl::CreateImageKernels(std::move(context));
  }
#endif
#ifdef UPSCALED_BENCH_CUDA
  absl::string_view number = device;
  int index = 0;
  if (absl::ConsumePrefix(&number, "cuda:") && absl::SimpleAtoi(number, &index)) {
    return cuda::CreateImageKernels(index);
  }
#endif
  return absl::InvalidArgumentError(
      absl::StrCat("device '", device, "' is not cpu, or an opencl or cuda:N that this build has"));
}

}  // namespace

absl::StatusOr<ImageKernelsList> CreateImageKernels(const std::string& device, int threads) {
  ImageKernelsList list;
  if (device == "cpu") {
    list.push_back(reference::CreateImageKernels());
    list.push_back(cpu::CreateImageKernels(threads > 0 ? threads : AvailableCpuCount()));
    return list;
  }
  ASSIGN_OR_RETURN(list.emplace_back(), CreateOnDevice(device));
  return list;
}

}  // namespace upscaled::bench
