#include "engine/backends/opencl/cl_status.h"

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace upscaled::opencl {
namespace {

struct ErrorInfo {
  cl_int error;
  const char* name;
  absl::StatusCode code;
};

// Errors that can happen without a mistake of ours. Others are given by number.
constexpr ErrorInfo kErrors[] = {
    {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND", absl::StatusCode::kUnavailable},
    {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE", absl::StatusCode::kUnavailable},
    {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE", absl::StatusCode::kUnavailable},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE",
     absl::StatusCode::kResourceExhausted},
    // Memory has errors of its own; this is also what drivers call a kernel that broke its context.
    {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES", absl::StatusCode::kInternal},
    {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY", absl::StatusCode::kResourceExhausted},
    {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE", absl::StatusCode::kResourceExhausted},
    {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE", absl::StatusCode::kInternal},
    {CL_INVALID_BINARY, "CL_INVALID_BINARY", absl::StatusCode::kInternal},
    {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE", absl::StatusCode::kInternal},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR", absl::StatusCode::kUnavailable},
};

}  // namespace

absl::Status ToStatus(cl_int error, std::string_view call) {
  if (error == CL_SUCCESS) return absl::OkStatus();
  for (const ErrorInfo& info : kErrors) {
    if (info.error == error) {
      return absl::Status(info.code, absl::StrCat(ToAbsl(call), ": ", info.name));
    }
  }
  return absl::InternalError(absl::StrCat(ToAbsl(call), ": OpenCL error ", error));
}

}  // namespace upscaled::opencl
