// upscale-bench identity: the cost of identifying a caller, and whether the time of a rejection
// leaks anything about the keys.
// Asks an Authenticator about right keys and each kind of wrong ones in random turns, twice each,
// and prints the second time and Student's t of the rounds' differences. Beyond 4.5 means differ,
// as in dudect; the slowest tenth is left out. Tokens are compared by Welch's t.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
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

// Enough to leave predictors ignorant, and few enough to stay in an L2 cache: more would be slower,
// but only in this bench, since no server asks about them as rarely.
constexpr int kKeysOfAKind = 500;
// Each with new keys: their places, in memory and in the index, are a matter of chance: the samples
// of a round are alike for another reason than their kind.
constexpr int kRounds = 100;
constexpr double kKept = 0.9;  // of the samples: the slowest are the machine's doing

// Steps over the time in which an address recovers from its wrong keys.
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
struct CallerKind {
  std::string name;
  std::vector<std::string> callers;
  bool known = false;
};

using Signers = std::array<TokenSigner, 3>;

// Key files of its own, with callers of each kind.
class Callers {
 public:
  // `signers` must outlive it.
  explicit Callers(const Signers& signers) : signers_(signers) {
    std::filesystem::create_directory(folder_);
    json keys = json::array();
    const auto add = [&](CallerKind& kind, const char* field = nullptr,
                         const char* time = nullptr) {
      const std::string key = *server::NewApiKey();
      keys.push_back({{"name", absl::StrCat("key-", keys.size())},
                      {"tenant", "t"},
                      {"roles", {"read"}},
                      {"sha256", server::FormatKeyHash(*server::HashApiKey(key))}});
      if (field != nullptr) keys.back()[field] = time;
      kind.callers.push_back("Bearer " + key);
    };
    CallerKind right{"right key", {}, true}, expired{"expired key"}, early{"early key"},
        unknown{"unknown key"}, first{"first byte wrong"}, last{"last byte wrong"};
    for (int i = 0; i < kKeysOfAKind; ++i) {
      add(right);
      add(expired, "expires", "2000-01-01T00:00:00Z");
      add(early, "not_before", "2999-01-01T00:00:00Z");
      const std::string other = *server::NewApiKey();
      unknown.callers.push_back("Bearer " + other);
      first.callers.push_back(Changed(right.callers.back(), std::strlen("Bearer upk_")));
      last.callers.push_back(Changed(right.callers.back(), right.callers.back().size() - 1));
    }
    const json tokens = {{"issuer", "us"}, {"audience", "bench"}, {"key_set", "jwks.json"}};
    std::ofstream(folder_ / "jwks.json")
        << json{{"keys", {signers_[0].Jwk(), signers_[1].Jwk(), signers_[2].Jwk()}}};
    std::ofstream(file()) << json{{"keys", keys}, {"tokens", tokens}};
    kinds_ = {right, unknown, first, last, expired, early};
    malformed_.callers = {"Bearer upk_short"};
  }
  ~Callers() { std::filesystem::remove_all(folder_); }

  std::filesystem::path file() const { return folder_ / "keys.json"; }
  // The first is right, the second one of unknown keys.
  const std::vector<CallerKind>& kinds() const { return kinds_; }
  const CallerKind& malformed() const { return malformed_; }

  // Tokens not shown before.
  CallerKind FreshTokens(int signer, int count) const {
    CallerKind kind{
        absl::StrCat("new token, ", signers_[signer].Header()["alg"].get<std::string>()), {}, true};
    for (int i = 0; i < count; ++i) {
      kind.callers.push_back("Bearer " + signers_[signer].Sign(Claims(i, absl::Hours(1))));
    }
    return kind;
  }
  // The same of ES256, each wrong in its way; the first has only a wrong signature.
  std::vector<CallerKind> WrongTokens(int count) const {
    const TokenSigner& signer = signers_[1];
    const TokenSigner stranger("ES256", "b"), unknown("ES256", "nobody");
    std::vector<CallerKind> kinds = {{"wrong signature"}, {"unknown \"kid\""}, {"expired token"}};
    for (int i = 0; i < count; ++i) {
      kinds[0].callers.push_back("Bearer " + stranger.Sign(Claims(i, absl::Hours(1))));
      kinds[1].callers.push_back("Bearer " + unknown.Sign(Claims(i, absl::Hours(1))));
      kinds[2].callers.push_back("Bearer " + signer.Sign(Claims(i, -absl::Hours(1))));
    }
    return kinds;
  }

 private:
  static json Claims(int user, absl::Duration life) {
    return {{"iss", "us"},
            {"aud", "bench"},
            {"exp", absl::ToUnixSeconds(absl::Now() + life)},
            {"sub", absl::StrCat("user-", user)},
            {"tenant", "t"},
            {"roles", "read"}};
  }
  static std::string Changed(std::string text, size_t at) {
    text[at] = text[at] == 'A' ? 'B' : 'A';
    return text;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / absl::StrCat("upscale-bench-identity-", getpid());
  const Signers& signers_;
  std::vector<CallerKind> kinds_;
  CallerKind malformed_{"malformed key"};
};

// Nanoseconds of one decision, for a caller in the common place, just asked about: otherwise the
// contents of a cache depend on this bench's questions. A `fresh` one has not, as tokens are known
// again.
double Time(const Authenticator& authenticator, const std::string& caller, bool known,
            bool fresh = false) {
  static std::string shown(2048, '\0');
  shown = caller;
  const auto ask = [&] {
    return authenticator.Authorize({.authorization = shown}, "192.0.2.1", server::Role::kRead);
  };
  if (!fresh) (void)ask();
  const auto begin = std::chrono::steady_clock::now();
  const server::Authorization asked = ask();
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

// Each sample is of a kind by chance: changes of the machine meet all alike.
std::vector<Sum> Sample(const Authenticator& authenticator, const std::vector<CallerKind>& kinds,
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

// A kind's mean in each round.
using Means = std::vector<double>;

// Student's t of the rounds' differences, with the bound of WelchT.
double PairedT(const Means& a, const Means& b) {
  Means differences(a.size());
  std::ranges::transform(a, b, differences.begin(), std::minus());
  const auto count = static_cast<double>(a.size());
  const double mean = std::accumulate(differences.begin(), differences.end(), 0.0) / count;
  double variance = 0;
  for (const double difference : differences) variance += std::pow(difference - mean, 2);
  return mean / std::sqrt(variance / (count - 1) / count);
}

// Rows as text, and as JSON at the end.
class Report {
 public:
  explicit Report(bool as_json) : as_json_(as_json) {}
  ~Report() {
    if (as_json_) std::printf("%s\n", rows_.dump(2).c_str());
  }

  void Head(const char* against) const {
    if (!as_json_) std::printf("\n%-20s %12s %12s   %s\n", "", "median", "mean", against);
  }
  // `base`: the time to compare with; null: no comparison.
  void Add(const Sum& sum, const Sum* base = nullptr) {
    Add(sum, base, base == nullptr ? 0 : WelchT(sum, *base));
  }
  void Add(const Sum& sum, const Sum* base, double t) {
    json row = {{"kind", sum.kind}, {"median_ns", sum.median_ns}, {"mean_ns", sum.mean_ns}};
    if (base != nullptr) {
      row["against"] = base->kind;
      row["t"] = t;
    }
    if (!as_json_) {
      std::printf("%-20s %9.0f ns %9.1f ns", sum.kind.c_str(), sum.median_ns, sum.mean_ns);
      if (base != nullptr) {
        std::printf("   %+7.1f ns, t %+6.2f", sum.mean_ns - base->mean_ns, t);
      }
      std::printf("\n");
    }
    rows_.push_back(std::move(row));
  }

 private:
  const bool as_json_;
  json rows_ = json::array();
};

// `rounds`: sums by round and kind.
void ReportKeys(const std::vector<std::vector<Sum>>& rounds, Report& report) {
  std::vector<Sum> sums = rounds.back();
  std::vector<Means> means(sums.size());
  for (size_t kind = 0; kind < sums.size(); ++kind) {
    Means medians;
    for (const std::vector<Sum>& round : rounds) {
      means[kind].push_back(round[kind].mean_ns);
      medians.push_back(round[kind].median_ns);
    }
    sums[kind].mean_ns = std::accumulate(means[kind].begin(), means[kind].end(), 0.0) / kRounds;
    sums[kind].median_ns = Median(std::move(medians));
  }
  report.Head("against an unknown key");
  report.Add(sums[0]);
  for (size_t kind = 1; kind < sums.size(); ++kind) {
    report.Add(sums[kind], &sums[1], kind == 1 ? 0 : PairedT(means[kind], means[1]));
  }
}

void ReportTokens(const Authenticator& authenticator, const Callers& callers, Report& report) {
  constexpr int kTokens = 1000;
  report.Head("");
  for (int signer = 0; signer < 3; ++signer) {
    const CallerKind tokens = callers.FreshTokens(signer, kTokens);
    for (const char* name : {tokens.name.c_str(), "the same again"}) {
      std::vector<double> times;
      for (const std::string& caller : tokens.callers) {
        times.push_back(Time(authenticator, caller, true, /*fresh=*/true));
      }
      report.Add(Summarize(name, std::move(times)));
    }
  }
  report.Head("against a wrong signature");
  const std::vector<CallerKind> kinds = callers.WrongTokens(kTokens);
  std::vector<std::vector<double>> times(kinds.size());
  for (int i = 0; i < kTokens; ++i) {  // in turns, each shown once
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      times[kind].push_back(Time(authenticator, kinds[kind].callers[i], false, /*fresh=*/true));
    }
  }
  const Sum base = Summarize(kinds[0].name, times[0]);
  for (size_t i = 0; i < kinds.size(); ++i) report.Add(Summarize(kinds[i].name, times[i]), &base);
}

void RunIdentity(const IdentityOptions& options) {
  const Signers signers = {TokenSigner("RS256", "a"), TokenSigner("ES256", "b"),
                           TokenSigner("EdDSA", "c")};
  const SteppingClock clock;
  server::Timer timer;
  Report report(options.json);
  std::vector<std::vector<Sum>> rounds;
  while (true) {
    const Callers callers(signers);
    const auto authenticator = ValueOrExit(
        Authenticator::Load(callers.file(), clock, timer, [](const server::DeniedCaller&) {}));
    rounds.push_back(Sample(*authenticator, callers.kinds(), options.samples / kRounds));
    if (rounds.size() < kRounds) continue;
    ReportKeys(rounds, report);
    // Apart: the form of keys is public, so this may show.
    report.Add(Sample(*authenticator, {callers.malformed()}, options.samples)[0]);
    return ReportTokens(*authenticator, callers, report);
  }
}

}  // namespace

void AddIdentityCommand(CLI::App& app) {
  auto options = std::make_shared<IdentityOptions>();
  CLI::App* const command =
      app.add_subcommand("identity", "what it costs to know callers, and what refusals tell");
  command->add_option("--samples", options->samples, "decisions of each kind")
      ->check(CLI::Range(10'000, 10'000'000))
      ->capture_default_str();
  command->add_flag("--json", options->json);
  command->callback([options] { RunIdentity(*options); });
}

}  // namespace upscaled::bench
