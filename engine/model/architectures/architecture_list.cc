#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/artcnn.h"
#include "engine/model/architectures/compact.h"
#include "engine/model/architectures/cunet.h"
#include "engine/model/architectures/dat.h"
#include "engine/model/architectures/dis.h"
#include "engine/model/architectures/drct.h"
#include "engine/model/architectures/edsr.h"
#include "engine/model/architectures/espcn.h"
#include "engine/model/architectures/esrgan.h"
#include "engine/model/architectures/hat.h"
#include "engine/model/architectures/moesr.h"
#include "engine/model/architectures/mosr.h"
#include "engine/model/architectures/nunif.h"
#include "engine/model/architectures/omni_sr.h"
#include "engine/model/architectures/plksr.h"
#include "engine/model/architectures/rtmosr.h"
#include "engine/model/architectures/scunet.h"
#include "engine/model/architectures/span.h"
#include "engine/model/architectures/spsr.h"
#include "engine/model/architectures/srformer.h"
#include "engine/model/architectures/srresnet.h"
#include "engine/model/architectures/swift_srgan.h"
#include "engine/model/architectures/swin2sr.h"
#include "engine/model/architectures/swin_unet.h"
#include "engine/model/architectures/swinir.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

// Nothing in a file tells ReLU from LeakyReLU: these two are taken only by name.
bool Never(const TensorFile&) { return false; }

constexpr Architecture kArchitectures[] = {
    {"esrgan", RecogniseEsrgan, EsrganScale, BuildEsrgan},
    {"compact", RecogniseCompact, CompactScale, BuildCompact},
    {"compact-relu", Never, CompactScale, BuildCompactRelu},
    {"compact-leakyrelu", Never, CompactScale, BuildCompactLeakyRelu},
    {"span", RecogniseSpan, SpanScale, BuildSpan},
    {"espcn", RecogniseEspcn, EspcnScale, BuildEspcn},
    {"artcnn", RecogniseArtCnn, ArtCnnScale, BuildArtCnn},
    {"dis", RecogniseDis, DisScale, BuildDis},
    {"cugan", RecogniseCugan, CunetScale, BuildCugan},
    {"cunet", RecogniseCunet, CunetScale, BuildCunet},
    {"plksr", RecognisePlksr, PlksrScale, BuildPlksr},
    {"mosr", RecogniseMosr, MosrScale, BuildMosr},
    {"rtmosr", RecogniseRtMosr, RtMosrScale, BuildRtMosr},
    {"moesr", RecogniseMoEsr, MoEsrScale, BuildMoEsr},
    {"spanplus", RecogniseSpanPlus, SpanPlusScale, BuildSpanPlus},
    {"srresnet", RecogniseSrResNet, SrResNetScale, BuildSrResNet},
    {"edsr", RecogniseEdsr, EdsrScale, BuildEdsr},
    {"rcan", RecogniseRcan, EdsrScale, BuildRcan},
    {"swift-srgan", RecogniseSwiftSrgan, SwiftSrganScale, BuildSwiftSrgan},
    {"swinir", RecogniseSwinIr, SwinIrScale, BuildSwinIr},
    {"drct", RecogniseDrct, DrctScale, BuildDrct},
    {"hat", RecogniseHat, HatScale, BuildHat},
    {"dat", RecogniseDat, DatScale, BuildDat},
    {"srformer", RecogniseSrFormer, SrFormerScale, BuildSrFormer},
    {"swin2sr", RecogniseSwin2Sr, Swin2SrScale, BuildSwin2Sr},
    {"scunet", RecogniseScunet, ScunetScale, BuildScunet},
    {"swin_unet", RecogniseSwinUnet, SwinUnetScale, BuildSwinUnet},
    {"omnisr", RecogniseOmniSr, OmniSrScale, BuildOmniSr},
    {"spsr", RecogniseSpsr, SpsrScale, BuildSpsr},
    {"vgg_7", RecogniseVgg7, Vgg7Scale, BuildVgg7},
    {"upconv_7", RecogniseUpconv7, Upconv7Scale, BuildUpconv7},
};

// A network missing here, by a tensor absent from the ones below it.
struct Missing {
  std::string_view name;
  std::string_view tensor;
  std::string_view needs;
};

constexpr char kAttention[] = "attention (products of matrices of pixels, softmax)";

constexpr Missing kMissing[] = {
    {"compact without PReLU", "body.2.weight",
     "to be told whether it has ReLU or LeakyReLU: name 'compact-relu' or 'compact-leakyrelu' as "
     "the architecture in a model.json"},
    {"RTMoSR", "body.0.conv.dwconv_hw.weight", "an older form of its blocks"},
    {"ATD", "layers.0.residual_group.td", kAttention},
    {"CRAFT", "layers.0.residual_group.hf_blocks.0.attn.temperature", kAttention},
    {"RGT", "layers.0.blocks.0.gamma", kAttention},
    {"GRL", "layers.0.blocks.0.attn.window_attn.attn_transform.logit_scale", kAttention},
    {"FDAT", "groups.0.blocks.0.inter.cg.1.weight", kAttention},
    {"DCTLSA", "B1.body.0.transformer_body.0.blocks.0.attn.qkv.weight", kAttention},
    {"DITN", "UFONE.0.ITLs.0.attn.temperature", kAttention},
    {"LUDVAE", "Gauconv_q_3.m.weight", "random numbers: it makes clean images noisy"},
    {"SAFMN", "feats.0.safm.aggr.weight", "max pooling to several sizes"},
    {"SeemoRe", "body.0.local_block.block.moe_layer.experts.0.conv_1.weight",
     "a choice of convolutions by the image"},
};

std::string Names() {
  return absl::StrJoin(kArchitectures, ", ", [](std::string* out, const Architecture& known) {
    absl::StrAppend(out, "'", ToAbsl(known.name), "'");
  });
}

}  // namespace

absl::Status CheckArchitecture(std::string_view name) {
  const bool known = std::any_of(std::begin(kArchitectures), std::end(kArchitectures),
                                 [name](const Architecture& a) { return a.name == name; });
  if (known) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no architecture ", Quote(name), ", there are ", Names()));
}

absl::StatusOr<const Architecture*> FindArchitecture(const TensorFile& file,
                                                     std::string_view name) {
  if (!name.empty()) RETURN_IF_ERROR(CheckArchitecture(name));
  for (const Architecture& known : kArchitectures) {
    if (name.empty() ? known.recognises(file) : known.name == name) return &known;
  }
  for (const Missing& missing : kMissing) {
    if (!file.Has(missing.tensor)) continue;
    return absl::UnimplementedError(absl::StrCat("is of the architecture ", ToAbsl(missing.name),
                                                 ", which needs ", ToAbsl(missing.needs),
                                                 "; supported are ", Names()));
  }
  const std::string first =
      file.tensors().empty() ? "none" : Quote(file.tensors().begin()->first) + " and so on";
  return absl::UnimplementedError(absl::StrCat("has the tensors of no known architecture (", first,
                                               "); supported are ", Names()));
}

absl::StatusOr<Network> BuildNetwork(const TensorFile& file, std::string_view name) {
  ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(file, name));
  NetworkBuilder builder(file);
  architecture->build(builder);
  absl::StatusOr<Network> network = builder.Finish();
  if (network.ok()) {
    network->architecture = std::string(architecture->name);
    return network;
  }
  return absl::Status(network.status().code(), absl::StrCat("as ", ToAbsl(architecture->name), ": ",
                                                            network.status().message()));
}

}  // namespace upscaled
