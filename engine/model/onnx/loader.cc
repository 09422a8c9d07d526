#include "engine/model/onnx/loader.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/alignment.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/check_size.h"
#include "engine/model/onnx/schema.pb.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

// The operator set of the default domain; operators that we read have not changed their
// meaning up to here.
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

// Padding and cropping around the layers must be what they need.
absl::Status CheckAlignment(const onnx::Alignment& written, const Network& network) {
  if (written.pad_px == network.pad_px && written.align_px == network.align_px &&
      written.scale == network.scale) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("pads ", written.pad_px, " pixels, to multiples of ", written.align_px,
                   ", and cuts off at ", written.scale, " times the size; the layers need ",
                   network.pad_px, ", ", network.align_px, " and ", network.scale));
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
  const std::optional<onnx::Alignment> alignment = onnx::TakeAlignment(*model.mutable_graph());
  onnx::Builder builder(model.graph());
  RETURN_IF_ERROR(builder.AddInput());
  for (int i = 0; i < model.graph().node_size(); ++i) {
    const onnx::NodeProto& node = model.graph().node(i);
    const absl::Status status = builder.Add(node);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(DescribeNode(i, node), ": ", status.message()));
    }
  }
  ASSIGN_OR_RETURN(Network network, builder.Finish());
  if (alignment) RETURN_IF_ERROR(CheckAlignment(*alignment, network));
  return network;
}

bool LooksLikeOnnx(std::string_view head) {
  // A model begins with its ir_version, a small number, and goes on with another of its fields.
  constexpr std::string_view kNextTags = "\x12\x1a\x22\x28\x32\x3a\x42";
  return head.size() >= 3 && head[0] == 0x08 && head[1] >= 1 && head[1] < 0x7f &&
         kNextTags.find(head[2]) != kNextTags.npos;
}

}  // namespace upscaled
