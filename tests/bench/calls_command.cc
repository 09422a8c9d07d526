// upscale-bench calls: what calls cost that compute nothing, on servers that run already.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "tests/bench/commands.h"
#include "tests/bench/machine.h"
#include "tests/bench/options.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::bench {
namespace {

using Stub = ::upscale::v1::UpscaleService::Stub;

constexpr int kTurnCalls = 50;  // small calls until it is the next server's turn
constexpr int kMaxMessageBytes = 256 << 20;

struct CallsOptions {
  std::vector<std::string> servers;
  int rounds = 40;
  int megabytes = 27;
  std::string api_key;
};

// A server and what its calls took.
struct Subject {
  std::string address;
  std::unique_ptr<Stub> stub;
  std::vector<double> small_s;
  std::vector<double> upload_s;
};

double SecondsOf(const std::function<grpc::Status()>& call, grpc::StatusCode expected) {
  const absl::Time start = absl::Now();
  const grpc::Status status = call();
  if (status.error_code() != expected) {
    ExitUnlessOk(absl::UnavailableError(absl::StrCat("a call failed: ", status.error_message())));
  }
  return absl::ToDoubleSeconds(absl::Now() - start);
}

// Servers that ask for no key are shown it as well.
void ShowKey(const std::string& api_key, grpc::ClientContext& context) {
  if (!api_key.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", api_key));
}

double SmallCallSeconds(Stub& stub, const std::string& api_key) {
  return SecondsOf(
      [&] {
        grpc::ClientContext context;
        ShowKey(api_key, context);
        ::upscale::v1::GetServerInfoResponse response;
        return stub.GetServerInfo(&context, {}, &response);
      },
      grpc::StatusCode::OK);
}

// The time of an upload of bytes that are no image, so that nothing is computed.
double UploadSeconds(Stub& stub, const ::upscale::v1::UpscaleRequest& request,
                     const std::string& api_key) {
  return SecondsOf(
      [&] {
        grpc::ClientContext context;
        ShowKey(api_key, context);
        ::upscale::v1::UpscaleResponse response;
        return stub.Upscale(&context, request, &response);
      },
      grpc::StatusCode::INVALID_ARGUMENT);
}

double Quantile(std::vector<double>& values, double q) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

void RunCallsCommand(const CallsOptions& options) {
  std::vector<Subject> subjects;
  for (const std::string& address : options.servers) {
    const auto channel = ValueOrExit(client::MakeChannel(
        {.endpoints = {address}, .max_message_bytes = kMaxMessageBytes, .own_connections = true}));
    subjects.push_back({address, ::upscale::v1::UpscaleService::NewStub(channel)});
  }
  ::upscale::v1::UpscaleRequest upload;
  upload.set_image(std::string(static_cast<size_t>(options.megabytes) * 1'000'000, 'x'));
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      Subject& subject = subjects[(round + i) % subjects.size()];
      for (int call = 0; call < kTurnCalls; ++call) {
        subject.small_s.push_back(SmallCallSeconds(*subject.stub, options.api_key));
      }
      subject.upload_s.push_back(UploadSeconds(*subject.stub, upload, options.api_key));
    }
  }
  PrintMachine();
  std::printf("%-24s %12s %12s %12s\n", "server", "small p50 us", "small p99 us", "upload ms");
  for (Subject& subject : subjects) {
    std::printf("%-24s %12.1f %12.1f %12.2f\n", subject.address.c_str(),
                Quantile(subject.small_s, 0.5) * 1e6, Quantile(subject.small_s, 0.99) * 1e6,
                Quantile(subject.upload_s, 0.5) * 1e3);
  }
}

}  // namespace

void AddCallsCommand(CLI::App& app) {
  auto options = std::make_shared<CallsOptions>();
  CLI::App* command =
      app.add_subcommand("calls", "What calls cost that compute nothing, on servers that run");
  command->add_option("--server", options->servers, "HOST:PORT; several take turns")->required();
  command->add_option("--rounds", options->rounds, "Turns of each server")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--megabytes", options->megabytes, "Of an upload; see --max-unary-bytes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--api-key", options->api_key, "Shown to all servers")
      ->envname("UPSCALE_API_KEY");
  command->callback([options] { RunCallsCommand(*options); });
}

}  // namespace upscaled::bench
