// For arithmetic shared by kernels, their packing code and the tests without a GPU.
#pragma once

#ifdef __CUDACC__
#define UPSCALED_HD __host__ __device__
#else
#define UPSCALED_HD
#endif
