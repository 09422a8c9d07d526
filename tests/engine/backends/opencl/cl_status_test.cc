#include "engine/backends/opencl/cl_status.h"

#include <gtest/gtest.h>

namespace upscaled::opencl {
namespace {

// The device's owner rebuilds it after any error other than one of memory.
TEST(ClStatusTest, OnlyMemoryIsExhausted) {
  EXPECT_TRUE(ToStatus(CL_SUCCESS, "clFinish").ok());
  for (const cl_int error : {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY}) {
    EXPECT_TRUE(absl::IsResourceExhausted(ToStatus(error, "clCreateBuffer"))) << error;
  }
  EXPECT_TRUE(absl::IsUnavailable(ToStatus(CL_DEVICE_NOT_AVAILABLE, "clCreateContext")));
  EXPECT_EQ(ToStatus(CL_OUT_OF_RESOURCES, "clFinish"),
            absl::InternalError("clFinish: CL_OUT_OF_RESOURCES"));
  EXPECT_EQ(ToStatus(CL_INVALID_COMMAND_QUEUE, "clFinish"),
            absl::InternalError("clFinish: OpenCL error -36"));
}

}  // namespace
}  // namespace upscaled::opencl
