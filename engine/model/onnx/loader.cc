#include "engine/model/onnx/loader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/geometry.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/attention.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/byte_range.h"
#include "engine/model/onnx/check_size.h"
#include "engine/model/onnx/patterns.h"
#include "engine/model/onnx/schema.pb.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

// The operator set of the default domain; the operators in use have not changed their meaning up to
// here.
constexpr int64_t kMaxOperatorSet = 23;

absl::Status CheckOperatorSet(const onnx::ModelProto& model) {
  bool imported = false;
  for (const onnx::OperatorSetIdProto& set : model.opset_import()) {
    if (!set.domain().empty()) continue;
    imported = true;
    if (set.version() < 1 || set.version() > kMaxOperatorSet) {
      return absl::UnimplementedError(absl::StrCat("operator set ", set.version(),
                                                   " is not supported, only 1..", kMaxOperatorSet));
    }
  }
  return imported ? absl::OkStatus()
                  : absl::InvalidArgumentError("imports no operator set of ONNX");
}

// For messages; names are free in ONNX, and often missing.
std::string DescribeNode(int index, const onnx::NodeProto& node) {
  const std::string& name =
      node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return absl::StrCat("node ", index, " ", Quote(name), " (", node.op_type().substr(0, 40), ")");
}

// `named`: see Builder::named_size.
absl::StatusOr<Network> Build(const onnx::GraphProto& graph, std::optional<Size> exported,
                              std::optional<Size>& named) {
  onnx::Builder builder(graph, exported);
  RETURN_IF_ERROR(builder.AddInput());
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto& node = graph.node(i);
    const absl::Status status = builder.Add(node);
    if (!status.ok()) {
      named = builder.named_size();
      return absl::Status(status.code(),
                          absl::StrCat(DescribeNode(i, node), ": ", status.message()));
    }
  }
  absl::StatusOr<Network> network = builder.Finish();
  if (!network.ok()) named = builder.named_size();
  return network;
}

// `status`, and why it may be, if the graph has attention other than RecogniseAttention's.
absl::Status NoteAttention(const onnx::GraphProto& graph, const absl::Status& status) {
  const bool attends = std::ranges::any_of(
      graph.node(), [](const onnx::NodeProto& node) { return node.op_type() == "Softmax"; });
  if (status.ok() || !attends) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(),
                   "; its attention is spelled other than SwinIR's, Swin2SR's and swin_unet's, "
                   "the ones that are read from ONNX; use the network's .pth or .safetensors"));
}

}  // namespace

absl::StatusOr<Network> ParseOnnx(std::string_view bytes) {
  if (bytes.size() > kMaxOnnxBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("has ", bytes.size(), " bytes, the limit is ", kMaxOnnxBytes));
  }
  RETURN_IF_ERROR(onnx::CheckSize(bytes));
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("is no ONNX model, or cut short");
  }
  RETURN_IF_ERROR(CheckOperatorSet(model));
  onnx::GraphProto& graph = *model.mutable_graph();
  if (graph.node_size() > kMaxOnnxNodes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("has ", graph.node_size(), " nodes, the limit is ", kMaxOnnxNodes));
  }
  onnx::RemoveByteRange(graph);
  onnx::RecognisePatterns(graph);
  onnx::RecogniseAttention(graph);
  std::optional<Size> named, none;
  absl::StatusOr<Network> network = Build(graph, std::nullopt, named);
  if (!network.ok() && named) network = Build(graph, named, none);
  if (!network.ok()) return NoteAttention(graph, network.status());
  return network;
}

bool LooksLikeOnnx(std::string_view head) {
  // A model begins with its ir_version, a small number, and goes on with another of its fields.
  constexpr std::string_view kNextTags = "\x12\x1a\x22\x28\x32\x3a\x42";
  return head.size() >= 3 && head[0] == 0x08 && head[1] >= 1 && head[1] < 0x7f &&
         kNextTags.find(head[2]) != kNextTags.npos;
}

}  // namespace upscaled
