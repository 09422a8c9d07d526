#include "engine/model/ncnn_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/model/border.h"
#include "engine/model/fuse.h"

namespace upscaled {

absl::Status NcnnBuilder::Add(NcnnLayer& layer) {
  const auto type = std::find_if(Types().begin(), Types().end(),
                                 [&](const Type& t) { return layer.type == t.name; });
  if (type == Types().end()) {
    std::vector<std::string> known;
    for (const Type& t : Types()) known.emplace_back(t.name);
    return absl::UnimplementedError(absl::StrCat("the layer type is not supported; supported are ",
                                                 absl::StrJoin(known, ", ")));
  }
  if (type->inputs != 0 && layer.inputs.size() != type->inputs) {
    return absl::UnimplementedError(
        absl::StrCat("has ", layer.inputs.size(), " inputs, only ", type->inputs, " supported"));
  }
  inputs_.clear();
  for (const std::string& name : layer.inputs) {
    const auto blob = blobs_.find(name);
    if (blob == blobs_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "reads blob '", name, "', which no earlier layer gives or another has read"));
    }
    inputs_.push_back(blob->second);
    blobs_.erase(blob);
  }
  if (network_.layers.empty() != (type->add == &NcnnBuilder::AddInput)) {
    return absl::InvalidArgumentError("the first layer, and no other, must be an Input");
  }
  RETURN_IF_ERROR((this->*type->add)(layer));
  return layer.params.CheckAllRead();
}

absl::StatusOr<Network> NcnnBuilder::Finish() {
  if (blobs_.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the layers leave ", blobs_.size(), " blobs unread, must leave one result"));
  }
  RETURN_IF_ERROR(weights_.CheckEnd());
  RETURN_IF_ERROR(InferBorder(network_));
  return std::move(network_);
}

Layer NcnnBuilder::NewLayer(const NcnnLayer& source, Op op) const {
  Layer layer;
  layer.op = op;
  layer.name = source.name;
  for (const Blob& blob : inputs_) layer.inputs.push_back(blob.layer);
  layer.in_channels = network_.layers[layer.inputs[0]].out_channels;
  layer.out_channels = layer.in_channels;
  return layer;
}

absl::Status NcnnBuilder::SetOutput(const std::string& name, Blob blob) {
  if (blobs_.emplace(name, blob).second) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gives blob '", name, "' a second time"));
}

absl::Status NcnnBuilder::Append(const NcnnLayer& source, Layer layer) {
  if (source.outputs.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("gives ", source.outputs.size(), " blobs, must give 1"));
  }
  network_.layers.push_back(std::move(layer));
  return SetOutput(source.outputs[0], {static_cast<int>(network_.layers.size()) - 1, false});
}

absl::Status NcnnBuilder::AppendAffine(const NcnnLayer& source, Layer affine) {
  if (inputs_[0].shared || !FuseAffine(affine, network_.layers[inputs_[0].layer])) {
    return Append(source, std::move(affine));
  }
  return PassThrough(source);
}

absl::StatusOr<int> NcnnBuilder::AppendUnnamed(const NcnnLayer& source, Layer layer) {
  layer.name = source.name;
  network_.layers.push_back(std::move(layer));
  RETURN_IF_ERROR(network_.CheckCounts());
  return static_cast<int>(network_.layers.size()) - 1;
}

absl::Status NcnnBuilder::PassThrough(const NcnnLayer& source) {
  for (const std::string& name : source.outputs) {
    const bool shared = inputs_[0].shared || source.outputs.size() > 1;
    RETURN_IF_ERROR(SetOutput(name, {inputs_[0].layer, shared}));
  }
  return absl::OkStatus();
}

absl::Status NcnnBuilder::AppendActivation(const NcnnLayer& source, const Layer& activation) {
  if (inputs_[0].shared || !FuseActivation(activation, network_.layers[inputs_[0].layer])) {
    return Append(source, activation);
  }
  return PassThrough(source);
}

}  // namespace upscaled
