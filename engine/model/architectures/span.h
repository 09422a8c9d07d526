// SPAN: six blocks of three convolutions. Its own sigmoid weighs each block's result, without
// parameters. Each convolution was trained as four, equal to one: see span.cc. SPANPlus has any
// number of blocks, in stages, with Mish.
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseSpan(const TensorFile& file);
absl::StatusOr<int> SpanScale(const TensorFile& file);
void BuildSpan(NetworkBuilder& builder);

bool RecogniseSpanPlus(const TensorFile& file);
absl::StatusOr<int> SpanPlusScale(const TensorFile& file);
void BuildSpanPlus(NetworkBuilder& builder);

}  // namespace upscaled
