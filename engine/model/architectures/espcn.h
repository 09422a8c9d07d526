// The shape of the bundled models, after ESPCN (Shi et al., 2016): 3x3 convolutions in a row,
// shrinking the image, LeakyReLU 0.1 or PReLU behind each but the last, and a pixel shuffle. Their
// tensors are "conv1.weight", "conv1.bias", "conv2.weight" and so on, slopes "prelu1.weight". Where
// all names begin with "residual." the result is added to the image, enlarged to the nearest pixel.
#pragma once

#include <vector>

#include "engine/model/architectures/architecture.h"
#include "engine/model/tensors/safetensors_writer.h"

namespace upscaled {

bool RecogniseEspcn(const TensorFile& file);
absl::StatusOr<int> EspcnScale(const TensorFile& file);
void BuildEspcn(NetworkBuilder& builder);

// The tensors of a network BuildEspcn could make, of x2 and more. UNIMPLEMENTED names a layer it
// could not make.
absl::StatusOr<std::vector<NamedTensor>> EspcnTensors(const Network& network);

}  // namespace upscaled
