// upscale-service-bench: what the service adds to the engine. The same picture through
// TranscodeImage and through UpscaleImage over loopback, turn by turn in one process, with the same
// backend; then eight at a time; then small calls back to back and after idling.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "engine/image/memory_io.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/transcode.h"
#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

struct BenchOptions {
  std::string repository = "engine/model/bundled";
  std::string model = "general-2x";
  int width = 960;
  int height = 540;
  int threads = 2;
  int rounds = 7;
  int clients = 8;
};

constexpr int kCompression = 1;

double Seconds(const std::function<void()>& work) {
  const absl::Time start = absl::Now();
  work();
  return absl::ToDoubleSeconds(absl::Now() - start);
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// The engine alone.
class Engine {
 public:
  explicit Engine(const BenchOptions& options)
      : backend_(*CreateBackend("cpu", {.threads = options.threads})),
        executor_(MakeLocalExecutor(*backend_)) {
    auto repository = ModelRepository::Open({options.repository});
    Check(repository.status());
    auto card = repository->Find(options.model);
    Check(card.status());
    auto network = LoadNetwork(**card, *(*card)->Find(2, kNoDenoise));
    Check(network.status());
    auto executable = backend_->Compile(*network, Precision::kExact);
    Check(executable.status());
    executable_ = *std::move(executable);
  }

  TranscodeStats Upscale(const std::string& image) {
    MemorySource source(image);
    upscaled::StringSink sink;
    const auto stats =
        TranscodeImage({.input = source, .output = sink, .executor = *executor_},
                       [this](const ImageHeader& header) -> absl::StatusOr<TranscodePlan> {
                         auto plan = PlanUpscale(
                             header.spec, {2 * header.spec.width_px, 2 * header.spec.height_px},
                             {executable_}, {.concurrency = executor_->concurrency()});
                         if (!plan.ok()) return plan.status();
                         return TranscodePlan{*std::move(plan), {.compression = kCompression}};
                       });
    Check(stats.status());
    return *stats;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<TileExecutor> executor_;
  std::shared_ptr<const Executable> executable_;
};

class Service {
 public:
  explicit Service(const BenchOptions& options) : logger_(LogFormat::kText, LogLevel::kError) {
    ServerConfig config = TestConfig();
    config.model_repositories = {options.repository};
    config.default_model = options.model;
    config.threads = options.threads;
    config.memory_budget_bytes = int64_t{4} << 30;
    auto server = Server::Start(config, logger_);
    Check(server.status());
    server_ = *std::move(server);
    Check(server_->WarmUp());
  }

  std::unique_ptr<pb::UpscaleService::Stub> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return pb::UpscaleService::NewStub(
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->grpc_port()),
                                  grpc::InsecureChannelCredentials(), arguments));
  }

  static void Upscale(pb::UpscaleService::Stub& stub, const std::string& image) {
    pb::UpscaleOptions options;
    options.set_png_compression(kCompression);
    const Outcome outcome = UpscaleImage(stub, options, image);
    Check(absl::Status(static_cast<absl::StatusCode>(outcome.status.error_code()),
                       outcome.status.error_message()));
  }

 private:
  Logger logger_;
  std::unique_ptr<Server> server_;
};

// Runs `work(client)` on as many threads, `rounds` times each.
double Together(int clients, int rounds, const std::function<void(int)>& work) {
  return Seconds([&] {
    std::vector<std::thread> threads;
    for (int client = 0; client < clients; ++client) {
      threads.emplace_back([&, client] {
        for (int round = 0; round < rounds; ++round) work(client);
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

void CompareOne(const BenchOptions& options, Engine& engine, const Service& service,
                const std::string& image) {
  const auto stub = service.Connect();
  std::vector<double> engine_seconds, service_seconds, codec_seconds;
  for (int round = -1; round < options.rounds; ++round) {  // the first one warms up
    TranscodeStats stats;
    const double alone = Seconds([&] { stats = engine.Upscale(image); });
    const double served = Seconds([&] { Service::Upscale(*stub, image); });
    if (round < 0) continue;
    engine_seconds.push_back(alone);
    service_seconds.push_back(served);
    codec_seconds.push_back(absl::ToDoubleSeconds(stats.decode + stats.encode));
  }
  const double alone = Quantile(engine_seconds, 0.5), served = Quantile(service_seconds, 0.5);
  std::printf(
      "one client:  engine %.4f s (codecs %.4f s of it), service %.4f s, overhead %+.1f %%\n",
      alone, Quantile(codec_seconds, 0.5), served, 100 * (served / alone - 1));
}

void CompareMany(const BenchOptions& options, Engine& engine, const Service& service,
                 const std::string& image) {
  std::vector<std::unique_ptr<pb::UpscaleService::Stub>> stubs;
  for (int client = 0; client < options.clients; ++client) stubs.push_back(service.Connect());
  std::vector<double> ratios;
  for (int round = 0; round < 3; ++round) {
    const double alone = Together(options.clients, 2, [&](int) { engine.Upscale(image); });
    const double served =
        Together(options.clients, 2, [&](int client) { Service::Upscale(*stubs[client], image); });
    ratios.push_back(alone / served);
  }
  std::printf("%d clients:   throughput %.1f %% of the engine's\n", options.clients,
              100 * Quantile(ratios, 0.5));
}

// How long small calls take, back to back and after idling.
void CompareIdle(const std::string& name, const std::function<void()>& work) {
  const auto measure = [&](int calls, absl::Duration pause) {
    std::vector<double> ms;
    for (int call = 0; call < calls; ++call) {
      absl::SleepFor(pause);
      ms.push_back(1e3 * Seconds(work));
    }
    return ms;
  };
  measure(10, absl::ZeroDuration());
  const std::vector<double> busy = measure(200, absl::ZeroDuration());
  const std::vector<double> idle = measure(60, absl::Milliseconds(1100));
  std::printf("64x64, %s: back to back p50 %.2f p99 %.2f ms; 1.1 s apart p50 %.2f p99 %.2f ms\n",
              name.c_str(), Quantile(busy, 0.5), Quantile(busy, 0.99), Quantile(idle, 0.5),
              Quantile(idle, 0.99));
}

int Main(int argc, char** argv) {
  BenchOptions options;
  CLI::App app("Measures what the service adds to the engine.");
  app.add_option("--repository", options.repository, "directory with the model's folder");
  app.add_option("--model", options.model, "a model of scale 2");
  app.add_option("--width", options.width, "of the picture, in pixels");
  app.add_option("--height", options.height, "of the picture, in pixels");
  app.add_option("--threads", options.threads, "that compute");
  app.add_option("--rounds", options.rounds, "for the median");
  app.add_option("--clients", options.clients, "at once");
  CLI11_PARSE(app, argc, argv);

  std::mt19937 random(1);
  const auto encode = [&](int width, int height) {
    return *test::Encode(test::PhotoImage({width, height, 3, SampleType::kU8}, random).view(),
                         {.compression = kCompression});
  };
  const std::string image = encode(options.width, options.height), small = encode(64, 64);
  Engine engine(options);
  const Service service(options);
  CompareOne(options, engine, service, image);
  CompareMany(options, engine, service, image);
  CompareIdle("engine", [&] { engine.Upscale(small); });
  const auto stub = service.Connect();
  CompareIdle("service", [&] { Service::Upscale(*stub, small); });
  return 0;
}

}  // namespace
}  // namespace upscaled::server

int main(int argc, char** argv) { return upscaled::server::Main(argc, argv); }
