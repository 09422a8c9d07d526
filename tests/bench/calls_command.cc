// upscale-bench calls: the time of running servers on small calls, in turns.
// GetServerInfo, 16x16 images back to back, and uploads without an image, for which servers need
// --max-unary-bytes 32MiB. For each server it prints how much longer its turns took than the first
// one's: the median of the pairs, with the 95 % interval.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/http/http_target.h"
#include "client/http/http_transfer.h"
#include "client/image_io.h"
#include "tests/bench/commands.h"
#include "tests/bench/images.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"
#include "tests/bench/service_sides.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::bench {
namespace {

constexpr int kSmallCalls = 50, kImageCalls = 20;  // until it is the next server's turn
constexpr int kImageSidePx = 16;
constexpr int kMaxMessageBytes = 256 << 20;

struct CallsOptions {
  std::vector<std::string> servers, http;
  int rounds = 40;
  int megabytes = 27;
  std::string api_key;
};

// A server, and its calls. Each failed one ends the command.
class ServerUnderTest {
 public:
  ServerUnderTest(const std::string& address, const std::string& http, const std::string& api_key)
      : address_(address), api_key_(api_key) {
    stub_ = ::upscale::v1::UpscaleService::NewStub(ValueOrExit(client::MakeChannel(
        {.endpoints = {address}, .max_message_bytes = kMaxMessageBytes, .own_connections = true})));
    if (http.empty()) return;
    target_ = std::make_unique<client::HttpTarget>(
        ValueOrExit(client::HttpTarget::Create("http://" + http, {}, api_key)));
  }

  const std::string& address() const { return address_; }

  void GetInfo() {
    grpc::ClientContext context;
    ShowKey(context);
    ::upscale::v1::GetServerInfoResponse response;
    Expect(stub_->GetServerInfo(&context, {}, &response), grpc::StatusCode::OK);
  }
  void Upscale(const ::upscale::v1::UpscaleRequest& request,
               grpc::StatusCode expected = grpc::StatusCode::OK) {
    grpc::ClientContext context;
    ShowKey(context);
    ::upscale::v1::UpscaleResponse response;
    Expect(stub_->Upscale(&context, request, &response), expected);
  }
  // A POST of `body`; a GET where it is null.
  void OverHttp(const std::string& path, client::ImageSource* body = nullptr) {
    client::HttpTransfer transfer(*target_, {.path = path, .body = body}, {});
    transfers_.Start(transfer);
    ExitUnlessOk(transfers_.Await(transfer, absl::InfiniteFuture(), {}));
    ExitUnlessOk(transfer.status());
    transfers_.Remove(transfer);
  }

 private:
  // Servers without keys are shown it as well.
  void ShowKey(grpc::ClientContext& context) const {
    if (!api_key_.empty()) context.AddMetadata("authorization", "Bearer " + api_key_);
  }
  static void Expect(const grpc::Status& status, grpc::StatusCode expected) {
    if (status.error_code() == expected) return;
    ExitUnlessOk(absl::UnavailableError(absl::StrCat("a call failed: ", status.error_message())));
  }

  const std::string address_, api_key_;
  std::unique_ptr<::upscale::v1::UpscaleService::Stub> stub_;
  std::unique_ptr<client::HttpTarget> target_;
  client::HttpTransfers transfers_;
};

// A kind of call, and how long it took.
struct CallKind {
  CallKind(std::string kind_name, int calls, std::function<void(ServerUnderTest&)> kind_call)
      : name(std::move(kind_name)), turn_calls(calls), call(std::move(kind_call)) {}

  std::string name;
  int turn_calls;
  std::function<void(ServerUnderTest&)> call;
  std::vector<std::vector<double>> calls_us;  // by subject
  std::vector<std::vector<double>> turns_us;  // likewise, the mean of each turn
};

std::vector<CallKind> KindsOf(const CallsOptions& options) {
  ::upscale::v1::UpscaleRequest image, upload;
  image.set_image(ValueOrExit(EncodePng(ShadedImage({kImageSidePx, kImageSidePx}).view())));
  // Bytes of no image: nothing is computed.
  upload.set_image(std::string(static_cast<size_t>(options.megabytes) * 1'000'000, 'x'));
  std::vector<CallKind> kinds;
  kinds.emplace_back("GetServerInfo", kSmallCalls,
                     [](ServerUnderTest& subject) { subject.GetInfo(); });
  kinds.emplace_back("Upscale 16x16", kImageCalls,
                     [image](ServerUnderTest& subject) { subject.Upscale(image); });
  if (options.megabytes > 0) {
    kinds.emplace_back("upload", 1, [upload](ServerUnderTest& subject) {
      subject.Upscale(upload, grpc::StatusCode::INVALID_ARGUMENT);
    });
  }
  if (options.http.empty()) return kinds;
  kinds.emplace_back("GET /v1/info", kSmallCalls,
                     [](ServerUnderTest& subject) { subject.OverHttp("/v1/info"); });
  kinds.emplace_back("POST 16x16", kImageCalls, [image](ServerUnderTest& subject) {
    client::MemorySource source(image.image());
    subject.OverHttp("/v1/upscale", &source);
  });
  return kinds;
}

void TakeTurn(CallKind& kind, ServerUnderTest& subject, size_t index) {
  std::vector<double>& calls = kind.calls_us[index];
  for (int i = 0; i < kind.turn_calls; ++i) {
    const absl::Time start = absl::Now();
    kind.call(subject);
    calls.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  kind.turns_us[index].push_back(std::accumulate(calls.end() - kind.turn_calls, calls.end(), 0.0) /
                                 kind.turn_calls);
}

// By how much the turns of the one took longer than those of the other: the median of the pairs'
// differences, and the interval with the true one at 95 %, between two of them, for any
// distribution (the binomial one, as a normal one).
void PrintDifference(const std::vector<double>& turns, const std::vector<double>& base) {
  std::vector<double> differences;
  for (size_t i = 0; i < turns.size(); ++i) differences.push_back(turns[i] - base[i]);
  std::ranges::sort(differences);
  const auto count = static_cast<double>(differences.size());
  const double half = 0.98 * std::sqrt(count), middle = (count - 1) / 2;
  const auto low = static_cast<size_t>(std::max(std::floor(middle - half), 0.0));
  const auto high = static_cast<size_t>(std::min(std::ceil(middle + half), count - 1));
  std::printf("  %+8.1f [%+.1f, %+.1f]", Median(differences), differences[low], differences[high]);
}

void Print(const std::vector<CallKind>& kinds,
           const std::vector<std::unique_ptr<ServerUnderTest>>& subjects) {
  PrintMachine();
  std::printf("%-14s %-22s %9s %9s   %s\n", "call", "server", "p50 us", "p99 us",
              "a turn's mean beyond the first server's, us: median [95 %]");
  for (const CallKind& kind : kinds) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      std::printf("%-14s %-22s %9.1f %9.1f", i == 0 ? kind.name.c_str() : "",
                  subjects[i]->address().c_str(), Median(kind.calls_us[i]),
                  Quantile(kind.calls_us[i], 0.99));
      if (i > 0) PrintDifference(kind.turns_us[i], kind.turns_us[0]);
      std::printf("\n");
    }
  }
}

void RunCallsCommand(const CallsOptions& options) {
  if (!options.http.empty() && options.http.size() != options.servers.size()) {
    ExitUnlessOk(absl::InvalidArgumentError("there must be an --http for each --server"));
  }
  std::vector<std::unique_ptr<ServerUnderTest>> subjects;
  for (size_t i = 0; i < options.servers.size(); ++i) {
    subjects.push_back(std::make_unique<ServerUnderTest>(
        options.servers[i], options.http.empty() ? "" : options.http[i], options.api_key));
  }
  std::vector<CallKind> kinds = KindsOf(options);
  for (CallKind& kind : kinds) {
    kind.calls_us.resize(subjects.size());
    kind.turns_us.resize(subjects.size());
    for (const auto& subject : subjects) kind.call(*subject);  // connects
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (CallKind& kind : kinds) {
      for (size_t i = 0; i < subjects.size(); ++i) {
        const size_t turn = (static_cast<size_t>(round) + i) % subjects.size();
        TakeTurn(kind, *subjects[turn], turn);
      }
    }
  }
  Print(kinds, subjects);
}

}  // namespace

void AddCallsCommand(CLI::App& app) {
  auto options = std::make_shared<CallsOptions>();
  CLI::App* command = app.add_subcommand("calls", "What small calls cost, on servers that run");
  command->add_option("--server", options->servers, "HOST:PORT; several take turns")->required();
  command->add_option("--http", options->http, "HOST:PORT of the same servers for HTTP");
  command->add_option("--rounds", options->rounds, "Turns of each server")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--megabytes", options->megabytes,
                   "Of an upload, see --max-unary-bytes; 0: there are none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--api-key", options->api_key, "Shown to all servers")
      ->envname("UPSCALE_API_KEY");
  command->callback([options] { RunCallsCommand(*options); });
}

}  // namespace upscaled::bench
