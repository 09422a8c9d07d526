#include "server/handlers/model_files_handler.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/espcn.h"
#include "engine/model/loader.h"
#include "engine/model/ncnn_exporter.h"
#include "engine/model/onnx/exporter.h"
#include "engine/model/tensors/safetensors_writer.h"
#include "server/base/error.h"
#include "server/handlers/info_handlers.h"
#include "server/handlers/model_intake.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;
using std::filesystem::path;

// Whether the file in `intake` is a runnable network.
absl::Status CheckNetwork(const ModelIntake& intake, const std::string& file_name) {
  const absl::Status status = LoadNetworkFile(intake.hidden()).status();
  if (status.ok()) return status;
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kUnsupported,
                   absl::StrReplaceAll(status.message(), {{intake.hidden().string(), file_name}}));
}

absl::Status CheckNew(const HandlerEnvironment& environment, const std::string& name) {
  if (!environment.catalog.Find(name).ok()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kInvalidOption,
                   absl::StrCat("there is a model '", name, "'"));
}

// Reads the models again and finds the placed one.
absl::Status Serve(const HandlerEnvironment& environment, const ModelCatalog::Turn& turn,
                   RequestRecord& record, const std::string& name, pb::AddModelResponse& response) {
  pb::ReloadModelsResponse reloaded;
  RETURN_IF_ERROR(ReloadModels(environment, turn, record, reloaded));
  pb::GetModelRequest request;
  request.set_name(name);
  pb::GetModelResponse found;
  RETURN_IF_ERROR(GetModel(environment, request, found));
  *response.mutable_model() = std::move(*found.mutable_model());
  return absl::OkStatus();
}

struct ExportedFile {
  const char* extension;
  std::string bytes;
};

// A file of weights as it is; of a whole network, if its weights are enough to tell.
absl::StatusOr<std::string> ExportSafetensors(const ModelCard& card, const ModelVariant& variant) {
  const auto tensors = OpenWeightsFile(variant.weights);
  if (absl::IsUnimplemented(tensors.status())) {
    ASSIGN_OR_RETURN(const Network network, LoadNetwork(card, variant));
    ASSIGN_OR_RETURN(const std::vector<NamedTensor> named, EspcnTensors(network));
    return WriteSafetensors(named);
  }
  RETURN_IF_ERROR(tensors.status());
  RETURN_IF_ERROR(CheckUnchanged(card, variant));
  return WriteSafetensors(**tensors);
}

absl::StatusOr<std::vector<ExportedFile>> Export(const ModelCard& card, const ModelVariant& variant,
                                                 pb::ModelFormat format) {
  std::vector<ExportedFile> files;
  if (format == pb::MODEL_FORMAT_SAFETENSORS) {
    ASSIGN_OR_RETURN(std::string bytes, ExportSafetensors(card, variant));
    files.push_back({".safetensors", std::move(bytes)});
    return files;
  }
  ASSIGN_OR_RETURN(const Network network, LoadNetwork(card, variant));
  if (format == pb::MODEL_FORMAT_ONNX) {
    ASSIGN_OR_RETURN(std::string onnx, ExportOnnx(network));
    files.push_back({".onnx", std::move(onnx)});
  } else {
    ASSIGN_OR_RETURN(NcnnFilePair pair, ExportNcnn(network));
    files.push_back({".param", std::move(pair.param)});
    files.push_back({".bin", std::move(pair.bin)});
  }
  return files;
}

}  // namespace

absl::Status AddModel(const HandlerEnvironment& environment, RequestRecord& record,
                      absl::FunctionRef<bool(pb::AddModelRequest&)> read,
                      pb::AddModelResponse& response) {
  pb::AddModelRequest message;
  if (!read(message) || !message.has_start()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                     "the first message must hold 'start'");
  }
  if (environment.model_folder.empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kInvalidOption,
                     "the server has no --model-repository to add models to");
  }
  const pb::AddModelStart start = message.start();
  const std::string name = path(start.file_name()).stem().string();
  record.model = name;
  RETURN_IF_ERROR(CheckNew(environment, name));  // before its bytes come
  ASSIGN_OR_RETURN(ModelIntake intake, ModelIntake::Open(environment.model_folder, start));
  while (read(message)) {
    record.received_bytes += static_cast<int64_t>(message.chunk().size());
    RETURN_IF_ERROR(intake.Write(message.chunk()));
  }
  RETURN_IF_ERROR(intake.Finish());
  RETURN_IF_ERROR(CheckNetwork(intake, start.file_name()));
  // No other reload sees the file before it is known to stay, and no other file comes by its name.
  const ModelCatalog::Turn turn = environment.catalog.AwaitTurn();
  RETURN_IF_ERROR(CheckNew(environment, name));
  RETURN_IF_ERROR(intake.Place());
  intake.Describe(response);
  absl::Status served = Serve(environment, turn, record, name, response);
  if (!served.ok()) intake.Withdraw();
  return served;
}

absl::Status ExportModel(const HandlerEnvironment& environment,
                         const pb::ExportModelRequest& request,
                         absl::FunctionRef<bool(const pb::ExportModelResponse&)> write) {
  constexpr size_t kChunkBytes = size_t{256} << 10;
  if (!pb::ModelFormat_IsValid(request.format()) ||
      request.format() == pb::MODEL_FORMAT_UNSPECIFIED) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                     absl::StrCat("format is ", request.format(), ", which is no ModelFormat"));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const CatalogEntry> entry,
                   environment.catalog.Find(request.name()));
  const ModelCard& card = *entry->card;
  const int scale = request.scale() == 0 ? NativeScale(card) : request.scale();
  const int noise_level = request.has_noise_level() ? request.noise_level() : kNoDenoise;
  const ModelVariant* variant = card.Find(scale, noise_level);
  if (variant == nullptr) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kUnknownModel,
                     absl::StrCat("model '", card.name, "' has no network of scale ", scale,
                                  " and noise level ", noise_level));
  }
  const auto files = Export(card, *variant, request.format());
  if (!files.ok()) {
    return MakeError(files.status().code(), ErrorReason::kUnsupported,
                     environment.catalog.WithoutDirectories(std::string(files.status().message())));
  }
  for (const ExportedFile& file : *files) {
    for (size_t at = 0; at < file.bytes.size(); at += kChunkBytes) {
      pb::ExportModelResponse response;
      response.set_extension(file.extension);
      response.set_chunk(file.bytes.substr(at, kChunkBytes));
      if (!write(response)) return absl::CancelledError("the client reads the answer no more");
    }
  }
  return absl::OkStatus();
}

}  // namespace upscaled::server
