#include "engine/backends/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace upscaled::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorInitializationError:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorStartupFailure:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsServerNotReady:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return absl::StatusCode::kUnavailable;
    default:
      return LosesContext(error) ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal;
  }
}

}  // namespace

// Returns whether the error leaves the process in an inconsistent state, by the runtime's
// documentation.
bool LosesContext(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

absl::Status ToStatus(cudaError_t error, std::string_view call, std::string_view device) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(error),
                      absl::StrCat(ToAbsl(device), ": ", ToAbsl(call), ": ",
                                   cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

}  // namespace upscaled::cuda
