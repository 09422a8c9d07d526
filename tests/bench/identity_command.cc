// upscale-bench identity: what it costs to know a caller, and whether the time that a refusal takes
// tells anything about the keys that there are.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/identity/authenticator.h"
#include "tests/bench/commands.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"
#include "tests/support/signed_token.h"

namespace upscaled::bench {
namespace {

using nlohmann::json;
using server::Authenticator;
using test::TokenSigner;

constexpr int kKeysOfAKind = 2000;  // of each, so that caches and predictors know none better
constexpr double kKept = 0.9;       // of the samples: the slowest are the machine's doing

// Steps over the time in which an address gets back what its wrong keys have cost it.
class SteppingClock final : public Clock {
 public:
  absl::Time Now() const override { return now_ += absl::Seconds(10); }

 private:
  mutable absl::Time now_ = absl::UnixEpoch();
};

struct IdentityOptions {
  int samples = 100'000;
  bool json = false;
};

// Callers of one kind, each shown as `authorization`.
struct Kind {
  std::string name;
  std::vector<std::string> callers;
  bool known = false;
};

// Key files of its own, with callers of each kind.
class Callers {
 public:
  Callers() {
    std::filesystem::create_directory(folder_);
    json keys = json::array();
    const auto add = [&](Kind& kind, const char* field = nullptr, const char* time = nullptr) {
      const std::string key = *server::NewApiKey();
      keys.push_back({{"name", absl::StrCat("key-", keys.size())},
                      {"tenant", "t"},
                      {"roles", {"read"}},
                      {"sha256", server::FormatKeyHash(*server::HashApiKey(key))}});
      if (field != nullptr) keys.back()[field] = time;
      kind.callers.push_back("Bearer " + key);
    };
    Kind right{"right key", {}, true}, expired{"expired key"}, early{"early key"},
        unknown{"unknown key"}, first{"first byte wrong"}, last{"last byte wrong"};
    for (int i = 0; i < kKeysOfAKind; ++i) {
      add(right);
      add(expired, "expires", "2000-01-01T00:00:00Z");
      add(early, "not_before", "2999-01-01T00:00:00Z");
      unknown.callers.push_back("Bearer " + *server::NewApiKey());
      first.callers.push_back(Changed(right.callers.back(), std::strlen("Bearer upk_")));
      last.callers.push_back(Changed(right.callers.back(), right.callers.back().size() - 1));
    }
    const json tokens = {{"issuer", "us"}, {"audience", "bench"}, {"key_set", "jwks.json"}};
    std::ofstream(folder_ / "jwks.json")
        << json{{"keys", {signers_[0].Jwk(), signers_[1].Jwk(), signers_[2].Jwk()}}};
    std::ofstream(file()) << json{{"keys", keys}, {"tokens", tokens}};
    kinds_ = {right, unknown, first, last, expired, early};
  }
  ~Callers() { std::filesystem::remove_all(folder_); }

  std::filesystem::path file() const { return folder_ / "keys.json"; }
  const std::vector<Kind>& kinds() const { return kinds_; }

  // Tokens that nobody has shown yet.
  Kind FreshTokens(int signer, int count) const {
    Kind kind{
        absl::StrCat("new token, ", signers_[signer].Header()["alg"].get<std::string>()), {}, true};
    for (int i = 0; i < count; ++i) {
      kind.callers.push_back(
          "Bearer " + signers_[signer].Sign({{"iss", "us"},
                                             {"aud", "bench"},
                                             {"exp", absl::ToUnixSeconds(absl::Now()) + 3600},
                                             {"sub", absl::StrCat("user-", i)},
                                             {"tenant", "t"},
                                             {"roles", "read"}}));
    }
    return kind;
  }

 private:
  static std::string Changed(std::string text, size_t at) {
    text[at] = text[at] == 'A' ? 'B' : 'A';
    return text;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / absl::StrCat("upscale-bench-identity-", getpid());
  const TokenSigner signers_[3] = {TokenSigner("RS256", "a"), TokenSigner("ES256", "b"),
                                   TokenSigner("EdDSA", "c")};
  std::vector<Kind> kinds_;
};

// Nanoseconds of one decision. `caller` is a copy, which has just been in the cache.
double Time(const Authenticator& authenticator, std::string caller, bool known) {
  const auto begin = std::chrono::steady_clock::now();
  const server::Authorization asked =
      authenticator.Authorize({.authorization = caller}, "192.0.2.1", server::Role::kRead);
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  if (asked.status.ok() != known) {
    ExitUnlessOk(absl::InternalError("a caller was taken for another"));
  }
  return time.count();
}

struct Sum {
  std::string kind;
  double median_ns = 0, mean_ns = 0, variance = 0, count = 0;
};

Sum Summarize(const std::string& kind, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  Sum sum{.kind = kind, .median_ns = times[times.size() / 2]};
  times.resize(std::max<size_t>(static_cast<size_t>(kKept * static_cast<double>(times.size())), 2));
  sum.count = static_cast<double>(times.size());
  for (const double time : times) sum.mean_ns += time / sum.count;
  for (const double time : times) sum.variance += std::pow(time - sum.mean_ns, 2) / (sum.count - 1);
  return sum;
}

// Welch's t of the means: beyond 4.5, the bound of dudect (Reparaz et al., 2017), they differ.
double WelchT(const Sum& a, const Sum& b) {
  return (a.mean_ns - b.mean_ns) / std::sqrt(a.variance / a.count + b.variance / b.count);
}

// Each sample is of a kind by chance, so that what changes on the machine meets all alike.
std::vector<Sum> Sample(const Authenticator& authenticator, const std::vector<Kind>& kinds,
                        int samples) {
  std::mt19937 random(std::random_device{}());
  std::vector<std::vector<double>> times(kinds.size());
  for (int64_t i = 0; i < int64_t{samples} * static_cast<int64_t>(kinds.size()); ++i) {
    const size_t kind = random() % kinds.size();
    const std::vector<std::string>& callers = kinds[kind].callers;
    times[kind].push_back(
        Time(authenticator, callers[random() % callers.size()], kinds[kind].known));
  }
  std::vector<Sum> sums;
  for (size_t i = 0; i < kinds.size(); ++i) sums.push_back(Summarize(kinds[i].name, times[i]));
  return sums;
}

void RunIdentity(const IdentityOptions& options) {
  const Callers callers;
  const SteppingClock clock;
  const auto authenticator =
      ValueOrExit(Authenticator::Load(callers.file(), clock, [](const server::DeniedCaller&) {}));
  const std::vector<Sum> sums = Sample(*authenticator, callers.kinds(), options.samples);
  const Sum& unknown = sums[1];
  json rows = json::array();
  const auto report = [&](const Sum& sum, bool wrong) {
    json row = {{"kind", sum.kind}, {"median_ns", sum.median_ns}, {"mean_ns", sum.mean_ns}};
    if (wrong) row["t_against_unknown"] = WelchT(sum, unknown);
    if (!options.json) {
      std::printf("%-20s %9.0f ns %9.1f ns", sum.kind.c_str(), sum.median_ns, sum.mean_ns);
      if (wrong)
        std::printf("   %+7.1f ns, t %+6.2f", sum.mean_ns - unknown.mean_ns, WelchT(sum, unknown));
      std::printf("\n");
    }
    rows.push_back(std::move(row));
  };
  if (!options.json)
    std::printf("%-20s %12s %12s   against an unknown key\n", "", "median", "mean");
  for (size_t i = 0; i < sums.size(); ++i) report(sums[i], i > 0);
  constexpr int kTokens = 1000;
  for (int signer = 0; signer < 3; ++signer) {
    const Kind tokens = callers.FreshTokens(signer, kTokens);
    for (const char* name : {tokens.name.c_str(), "the same again"}) {
      std::vector<double> times;
      for (const std::string& caller : tokens.callers) {
        times.push_back(Time(*authenticator, caller, true));
      }
      report(Summarize(name, std::move(times)), false);
    }
  }
  if (options.json) std::printf("%s\n", rows.dump(2).c_str());
}

}  // namespace

void AddIdentityCommand(CLI::App& app) {
  auto options = std::make_shared<IdentityOptions>();
  CLI::App* const command =
      app.add_subcommand("identity", "what it costs to know callers, and what refusals tell");
  command->add_option("--samples", options->samples, "decisions of each kind")
      ->check(CLI::Range(100, 10'000'000))
      ->capture_default_str();
  command->add_flag("--json", options->json);
  command->callback([options] { RunIdentity(*options); });
}

}  // namespace upscaled::bench
