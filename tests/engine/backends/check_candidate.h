// Every backend's promises about its candidates for a kernel choice.
#pragma once

#include <random>
#include <string>

#include "engine/graph/kernel_choice.h"

namespace upscaled::test {

// Tries the kernel on inputs of random values and size: it takes some time and gives the
// reference's result. `tolerance`: relative to the largest value of the result.
void CheckCandidate(const KernelCandidates& candidates, const std::string& name, float tolerance,
                    std::mt19937& random);

}  // namespace upscaled::test
