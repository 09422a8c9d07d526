// The plugin as programs find it, with a driver and without: holds on every machine with a build.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "engine/backends/backend_list.h"
#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/cuda_status.h"
#include "engine/backends/cuda/kernels/conv_kernels.h"
#include "engine/proof/kernel_proof.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Opened next to the test program with dlopen, as upscaled does; and the copy linked into this
// program.
TEST(CudaDriverTest, ThePluginLoadsAndFindsDevicesOrSaysWhyNot) {
  const PluginDevices own = EnumerateCudaDevices();
  const DeviceEnumeration enumeration = EnumerateDevices();
  for (const PluginDevice& device : own.devices) {
    EXPECT_TRUE(std::any_of(enumeration.devices.begin(), enumeration.devices.end(),
                            [&](const auto& found) { return found.name == device.name; }))
        << device.name;
  }
  for (const std::string& note : own.notes) {
    EXPECT_THAT(enumeration.notes, ::testing::Contains("cuda: " + note));
  }
  EXPECT_FALSE(own.devices.empty() && own.notes.empty());
}

TEST(CudaDriverTest, WithoutADriverTheCpuServes) {
  if (const PluginDevices enumeration = EnumerateCudaDevices(); !enumeration.devices.empty()) {
    GTEST_SKIP() << "there is " << enumeration.devices[0].name << ", "
                 << enumeration.devices[0].description;
  }
  for (const char* name : {"cuda", "cuda:0"}) {
    const auto backend = CreateBackend(name, {});
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(backend.status().message()),
                AllOf(StartsWith("no CUDA device '"), HasSubstr("no CUDA d")));
  }
  const auto chosen = CreateBackend("auto", {});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_FALSE(absl::StartsWith(std::string((*chosen)->name()), "cuda"));
}

TEST(CudaDriverTest, RefusesWhatItCannotHonour) {
  BackendOptions kernel;
  kernel.kernel = "magic";
  const auto unknown = CreateCudaBackend("cuda", kernel);
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()),
              StartsWith("kernel 'magic' is not one of the cuda backend's: "));
  BackendOptions isa;
  isa.cpu_isa = "avx2";
  EXPECT_EQ(CreateCudaBackend("cuda", isa).status(),
            absl::InvalidArgumentError("cpu_isa 'avx2' is an option of the cpu backend"));
}

// Proofs of gates know the new kernels by name.
TEST(CudaProofTest, GatesAreProvenNextToEveryNewKernel) {
  std::vector<std::string_view> names = {cuda::kHalfEpilogue};
  for (const cuda::ConvKernel& kernel : cuda::ListConvKernels()) {
    if (!kernel.seen) names.push_back(kernel.name);
  }
  EXPECT_THAT(ListJoinedKernels(), ::testing::UnorderedElementsAreArray(names));
}

TEST(CudaStatusTest, NamesDeviceCallAndErrorAndTellsWhatToDo) {
  EXPECT_TRUE(cuda::ToStatus(cudaSuccess, "cudaMalloc", "cuda:1").ok());
  const absl::Status memory =
      cuda::ToStatus(cudaErrorMemoryAllocation, "cudaMalloc of 3.0 MiB", "cuda:1");
  EXPECT_EQ(memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.message()), AllOf(StartsWith("cuda:1: cudaMalloc of 3.0 MiB: "),
                                                   HasSubstr("cudaErrorMemoryAllocation")));
  const auto code = [](cudaError_t error) {
    return cuda::ToStatus(error, "a call", "cuda:0").code();
  };
  EXPECT_EQ(code(cudaErrorIllegalAddress), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(cudaErrorNoDevice), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(cudaErrorNoKernelImageForDevice), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(cudaErrorInvalidValue), absl::StatusCode::kInternal);
  EXPECT_TRUE(cuda::LosesContext(cudaErrorECCUncorrectable));
  EXPECT_FALSE(cuda::LosesContext(cudaErrorNoDevice));
  EXPECT_FALSE(cuda::LosesContext(cudaErrorMemoryAllocation));
}

}  // namespace
}  // namespace upscaled
