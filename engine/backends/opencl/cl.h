// The OpenCL C++ bindings, for version 1.2 and without exceptions: every call returns its error.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#include <CL/opencl.hpp>
