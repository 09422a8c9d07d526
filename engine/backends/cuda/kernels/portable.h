// For arithmetic that kernels, what packs for them and the tests without a GPU share.
#pragma once

#ifdef __CUDACC__
#define UPSCALED_HD __host__ __device__
#else
#define UPSCALED_HD
#endif
