// The promises of every device's image kernels.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/bench/image_kernels/image_kernels.h"

namespace upscaled::test {

// Work of any size for the operation, edges of the kernels' tiles and runs among them.
ImageWork RandomWork(ImageOp op, std::mt19937& random);
// A source for it, with NaNs if they have a meaning.
std::vector<uint8_t> RandomSource(const ImageWork& work, std::mt19937& random);
// The result of a step. A failed step fails the test.
std::vector<uint8_t> RunStep(ImageKernels& kernels, size_t step, const ImageWork& work,
                             const std::vector<uint8_t>& src);

// Every step of every operation gives, over random work, the values of the definition
// (reference/image_kernels.h) within the rounding of its arithmetic, and is bit-exact if repeated.
void ExpectDefinitions(ImageKernels& kernels, std::mt19937& random);

}  // namespace upscaled::test
