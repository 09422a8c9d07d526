#include "tests/bench/service_sides.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/http/http_client.h"
#include "engine/backends/backend_list.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec.h"
#include "engine/image/memory_io.h"
#include "engine/model/repository.h"
#include "engine/pipeline/local_executor.h"
#include "server/config/config.h"

namespace upscaled::bench {
namespace {

constexpr char kDevice[] = "cpu";

// The rows of a view.
class ViewRows final : public RowSource {
 public:
  explicit ViewRows(ImageView view) : view_(view) {}
  const ImageSpec& spec() const override { return view_.spec; }
  absl::Status ReadRows(MutableImageView rows) override {
    for (int y = 0; y < rows.height_px(); ++y) {
      std::copy_n(view_.row(next_row_++), rows.spec.row_bytes(), rows.row(y));
    }
    return absl::OkStatus();
  }

 private:
  const ImageView view_;
  int next_row_ = 0;
};

absl::StatusOr<server::ServerConfig> MakeConfig(const SidesOptions& options, int clients) {
  // An image over HTTP is two requests: itself, and its progress.
  const int requests = std::max(server::Limits().max_concurrent_requests, 2 * clients);
  std::vector<std::string> words = {"upscaled",
                                    "--listen=127.0.0.1:0",
                                    "--http=127.0.0.1:0",
                                    "--admin=off",
                                    absl::StrCat("--device=", kDevice),
                                    absl::StrCat("--threads=", options.threads),
                                    absl::StrCat("--max-concurrent-requests=", requests),
                                    absl::StrCat("--max-requests-per-address=", requests),
                                    absl::StrCat("--default-model=", options.model.model)};
  for (const std::filesystem::path& folder : options.model.repositories) {
    words.push_back(absl::StrCat("--model-repository=", folder.string()));
  }
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  ASSIGN_OR_RETURN(server::ParsedConfig parsed,
                   server::ParseConfig(static_cast<int>(arguments.size()), arguments.data(),
                                       /*environment=*/{}));
  return std::move(parsed.config);
}

}  // namespace

absl::StatusOr<std::string> EncodePng(ImageView image) {
  upscaled::StringSink sink;
  ASSIGN_OR_RETURN(const auto encoder,
                   CreateImageEncoder({.format = ImageFormat::kPng, .compression = kPngCompression},
                                      image.spec, ImageMetadata(), sink));
  RETURN_IF_ERROR(encoder->WriteRows(image));
  RETURN_IF_ERROR(encoder->Finish());
  return sink.Take();
}

absl::StatusOr<Image> DecodePng(std::string_view png) {
  upscaled::MemorySource source(png);
  ASSIGN_OR_RETURN(const auto decoder, OpenImageDecoder(source, DecodeLimits()));
  Image image(decoder->spec());
  RETURN_IF_ERROR(decoder->ReadRows(image.mutable_view()));
  return image;
}

EngineSide::EngineSide(std::unique_ptr<Backend> backend,
                       std::shared_ptr<const Executable> executable)
    : backend_(std::move(backend)),
      executable_(std::move(executable)),
      executor_(MakeLocalExecutor(*backend_)) {}

absl::StatusOr<std::unique_ptr<EngineSide>> EngineSide::Create(const SidesOptions& options) {
  ASSIGN_OR_RETURN(const ModelRepository models, ModelRepository::Open(options.model.Folders()));
  ASSIGN_OR_RETURN(const ModelCard* card, models.Find(options.model.model));
  const ModelVariant* variant = card->Find(2, kNoDenoise);
  if (variant == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", card->name, " does not double without denoising"));
  }
  ASSIGN_OR_RETURN(const Network network, LoadNetwork(*card, *variant));
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                   CreateBackend(kDevice, {.threads = options.threads}));
  ASSIGN_OR_RETURN(std::shared_ptr<const Executable> executable,
                   backend->Compile(network, Precision::kExact));
  return std::unique_ptr<EngineSide>(new EngineSide(std::move(backend), std::move(executable)));
}

absl::StatusOr<UpscalePlan> EngineSide::Plan(const ImageSpec& source) const {
  return PlanUpscale(source, {scale() * source.width_px, scale() * source.height_px}, {executable_},
                     {.concurrency = executor_->concurrency()});
}

absl::Status EngineSide::UpscaleRows(ImageView source, MutableImageView result) {
  ASSIGN_OR_RETURN(const UpscalePlan plan, Plan(source.spec));
  ViewRows rows(source);
  return MakeUpscaler(plan, rows, *executor_, /*cancellation=*/nullptr)->ReadRows(result);
}

absl::Status EngineSide::UpscalePng(std::string_view png) {
  upscaled::MemorySource source(png);
  upscaled::StringSink sink;
  return TranscodeImage({.input = source, .output = sink, .executor = *executor_},
                        [this](const ImageHeader& header) -> absl::StatusOr<TranscodePlan> {
                          ASSIGN_OR_RETURN(UpscalePlan plan, Plan(header.spec));
                          return PlanTranscode(header, std::move(plan),
                                               {.compression = kPngCompression});
                        })
      .status();
}

absl::StatusOr<std::unique_ptr<ServiceSide>> ServiceSide::Create(const SidesOptions& options,
                                                                 int clients) {
  auto side = std::unique_ptr<ServiceSide>(new ServiceSide());
  ASSIGN_OR_RETURN(const server::ServerConfig config, MakeConfig(options, clients));
  ASSIGN_OR_RETURN(side->server_, server::Server::Start(config, side->logger_));
  RETURN_IF_ERROR(side->server_->WarmUp());
  for (int i = 0; i < clients; ++i) {
    client::ClientOptions client;
    client.channel.endpoints = {absl::StrCat("127.0.0.1:", side->server_->grpc_port())};
    client.channel.own_connections = true;
    client.retry.max_retries = 0;
    ASSIGN_OR_RETURN(side->clients_.emplace_back(), client::UpscaleClient::Create(client));
    ASSIGN_OR_RETURN(side->http_clients_.emplace_back(),
                     client::HttpClient::Create(
                         {.server = absl::StrCat("http://127.0.0.1:", side->server_->http_port()),
                          .retry = client.retry}));
  }
  return side;
}

absl::Status ServiceSide::UpscaleTile(int client, ImageView source) {
  client::v1::Tile tile;
  tile.set_width_px(source.spec.width_px);
  tile.set_height_px(source.spec.height_px);
  tile.set_bits_per_sample(8);
  tile.set_pixels(source.data, source.spec.row_bytes() * source.spec.height_px);
  absl::Status answer = absl::OkStatus();
  RETURN_IF_ERROR(clients_[client]->UpscaleTiles(
      {}, {&tile, 1}, [&answer](const client::v1::UpscaleTilesResponse& response) {
        if (response.has_error()) answer = absl::InternalError(response.error().message());
      }));
  return answer;
}

absl::Status ServiceSide::UpscalePng(client::Service& service, std::string_view png) {
  client::ImageRequest request;
  request.options.set_png_compression(kPngCompression);
  client::MemorySource source({png.data(), png.size()});
  client::MemorySink sink;
  client::ImageObserver observer;
  return service.UpscaleImage(request, source, sink, observer).status();
}

}  // namespace upscaled::bench
