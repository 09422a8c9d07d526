// upscale-bench service: the additions of server, network and client to the engine's own time.
// A ratio is the median over the rounds of one time by its reference's: a whole raw tile; PNG of
// level 1 by UpscaleImage against TranscodeImage, and HTTP against gRPC; one client and eight;
// 64x64 images back to back and after 1.1 s of idling, next to multiply-adds that show the
// machine's wake-up time.
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/base/cpu_info.h"
#include "tests/bench/commands.h"
#include "tests/bench/fma_peak.h"
#include "tests/bench/images.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"
#include "tests/bench/service_sides.h"

namespace upscaled::bench {
namespace {

constexpr Size kSmallImage{64, 64};
constexpr absl::Duration kIdle = absl::Milliseconds(1100);

struct ServiceOptions {
  SidesOptions sides;
  std::string size = "960x540";
  int rounds = 9;
  int clients = 8;
  int calls = 100;
  bool json = false;
};

// A subject of timing, and its base.
struct ServiceSubject {
  std::string name;
  std::function<absl::Status()> run;
  int reference = -1;  // index of the subject that its time is put in relation to
};

struct Row {
  std::string name;
  double p50_s = 0;
  double p99_s = -1;  // -1: too few values
  double ratio = -1;  // median over the rounds of this time / the reference's; -1: no reference
  std::string reference;
};

double SecondsOf(const std::function<absl::Status()>& run) {
  const absl::Time start = absl::Now();
  ExitUnlessOk(run());
  return absl::ToDoubleSeconds(absl::Now() - start);
}

// Runs `work(client)` for all clients at once, `times` times each.
absl::Status Together(int clients, int times, const std::function<absl::Status(int)>& work) {
  std::vector<absl::Status> results(clients);
  std::vector<std::thread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      for (int i = 0; i < times; ++i) results[client].Update(work(client));
    });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status all;
  for (const absl::Status& result : results) all.Update(result);
  return all;
}

// Times the subjects turn by turn, each round with another one first: changes of the machine
// meanwhile meet all alike. `images`: the number for one run of a subject.
void Compare(const std::vector<ServiceSubject>& subjects, int rounds, int images,
             std::vector<Row>& rows) {
  std::vector<std::vector<double>> seconds(subjects.size());
  for (const ServiceSubject& subject : subjects) ExitUnlessOk(subject.run());  // warms up
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      const size_t turn = (round + i) % subjects.size();
      seconds[turn].push_back(SecondsOf(subjects[turn].run) / images);
    }
  }
  for (size_t i = 0; i < subjects.size(); ++i) {
    Row row{.name = subjects[i].name, .p50_s = Median(seconds[i])};
    if (const int reference = subjects[i].reference; reference >= 0) {
      std::vector<double> ratios;
      for (int round = 0; round < rounds; ++round) {
        ratios.push_back(seconds[i][round] / seconds[reference][round]);
      }
      row.ratio = Median(ratios);
      row.reference = subjects[reference].name;
    }
    rows.push_back(std::move(row));
  }
}

// Multiply-adds on all threads for some milliseconds: neither memory nor code of ours: its extra
// time after a pause is the machine's waking up.
absl::Status Calculate(int threads) {
  constexpr int kTimes = 10;
  const cpu::Isa isa = cpu::ListIsas().front();
  return Together(threads, kTimes, [isa](int) {
    FmaPeakGflops(isa);
    return absl::OkStatus();
  });
}

// Small images back to back, one half before and one half after the idle ones. Each idle one comes
// after 1.1 s of silence.
void CompareIdle(EngineSide& engine, ServiceSide& service, int threads, int calls,
                 std::vector<Row>& rows) {
  const std::string png = ValueOrExit(EncodePng(ShadedImage(kSmallImage).view()));
  const std::vector<ServiceSubject> subjects = {
      {"machine, arithmetic", [=] { return Calculate(threads); }},
      {"64x64, engine, PNG", [&] { return engine.UpscalePng(png); }},
      {"64x64, service, PNG", [&] { return service.UpscalePng(0, png); }},
  };
  std::vector<std::vector<double>> busy(subjects.size()), idle(subjects.size());
  const auto back_to_back = [&] {
    for (size_t i = 0; i < subjects.size(); ++i) {
      ExitUnlessOk(subjects[i].run());  // warms up
      for (int call = 0; call < calls; ++call) busy[i].push_back(SecondsOf(subjects[i].run));
    }
  };
  back_to_back();
  for (int call = 0; call < calls; ++call) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      absl::SleepFor(kIdle);
      idle[i].push_back(SecondsOf(subjects[i].run));
    }
  }
  back_to_back();
  const auto add = [&](const std::string& name, const std::vector<double>& seconds) {
    rows.push_back({.name = name, .p50_s = Median(seconds), .p99_s = Quantile(seconds, 0.99)});
  };
  for (size_t i = 0; i < subjects.size(); ++i) {
    add(absl::StrCat(subjects[i].name, ", back to back"), busy[i]);
    add(absl::StrCat(subjects[i].name, ", after 1.1 s"), idle[i]);
  }
}

void PrintRows(const std::vector<Row>& rows, bool json) {
  auto list = nlohmann::ordered_json::array();
  if (!json) {
    PrintMachine();
    std::printf("%-36s %9s %9s %7s  %s\n", "name", "p50 ms", "p99 ms", "ratio", "to");
  }
  for (const Row& row : rows) {
    nlohmann::ordered_json object = {{"name", row.name}, {"p50_seconds", row.p50_s}};
    if (row.p99_s >= 0) object["p99_seconds"] = row.p99_s;
    if (row.ratio >= 0) object.update({{"ratio", row.ratio}, {"to", row.reference}});
    list.push_back(std::move(object));
    if (json) continue;
    const auto number = [](double value, double factor, int digits) {
      char text[32] = "";
      if (value >= 0) std::snprintf(text, sizeof text, "%.*f", digits, value * factor);
      return std::string(text);
    };
    std::printf("%-36s %9s %9s %7s  %s\n", row.name.c_str(), number(row.p50_s, 1e3, 2).c_str(),
                number(row.p99_s, 1e3, 2).c_str(), number(row.ratio, 1, 3).c_str(),
                row.reference.c_str());
  }
  if (json) std::printf("%s\n", list.dump(2).c_str());
}

void RunServiceCommand(const ServiceOptions& options) {
  const Size size = ValueOrExit(ParseSize(options.size));
  const auto engine = ValueOrExit(EngineSide::Create(options.sides));
  const auto service = ValueOrExit(ServiceSide::Create(options.sides, options.clients));
  const int scale = engine->scale();
  const ImageSpec result_spec{scale * size.width, scale * size.height, 3, SampleType::kU8};
  // One for each client: equal requests at a time would be computed once.
  std::vector<Image> sources, results;
  std::vector<std::string> pngs;
  for (int client = 0; client < options.clients; ++client) {
    sources.push_back(ShadedImage(size, client));
    pngs.push_back(ValueOrExit(EncodePng(sources.back().view())));
    results.emplace_back(result_spec);
  }

  const auto engine_rows = [&](int client) {
    return engine->UpscaleRows(sources[client].view(), results[client].mutable_view());
  };
  const auto engine_png = [&](int client) { return engine->UpscalePng(pngs[client]); };
  const auto service_tile = [&](int client) {
    return service->UpscaleTile(client, sources[client].view());
  };
  const auto service_png = [&](int client) { return service->UpscalePng(client, pngs[client]); };
  const auto http_png = [&](int client) {
    return service->UpscalePngOverHttp(client, pngs[client]);
  };

  std::vector<Row> rows;
  Compare({{"engine, raw", [&] { return engine_rows(0); }},
           {"service, raw", [&] { return service_tile(0); }, 0},
           {"engine, PNG", [&] { return engine_png(0); }, 0},
           {"service, PNG", [&] { return service_png(0); }, 2},
           {"service, PNG over HTTP", [&] { return http_png(0); }, 3},
           {"codec, decode source", [&] { return DecodePng(pngs[0]).status(); }},
           {"codec, encode result", [&] { return EncodePng(results[0].view()).status(); }}},
          options.rounds, 1, rows);

  constexpr int kTimes = 2;  // more than one each, so that the clients are out of step
  const auto together = [&](const std::function<absl::Status(int)>& work) {
    return [&options, work] { return Together(options.clients, kTimes, work); };
  };
  const std::string prefix = absl::StrCat(options.clients, " at once, ");
  Compare({{prefix + "engine, raw", together(engine_rows)},
           {prefix + "service, raw", together(service_tile), 0},
           {prefix + "engine, PNG", together(engine_png)},
           {prefix + "service, PNG", together(service_png), 2},
           {prefix + "service, PNG over HTTP", together(http_png), 3}},
          (options.rounds + 2) / 3, options.clients * kTimes, rows);

  if (options.calls > 0) {
    const int threads = options.sides.threads > 0 ? options.sides.threads : AvailableCpuCount();
    CompareIdle(*engine, *service, threads, options.calls, rows);
  }
  PrintRows(rows, options.json);
}

}  // namespace

void AddServiceCommand(CLI::App& app) {
  auto options = std::make_shared<ServiceOptions>();
  CLI::App* command = app.add_subcommand("service", "What the service adds to the engine's time");
  command->add_option("--model", options->sides.model.model, "Name of a model that doubles")
      ->default_val("general-2x");
  AddRepositoryOption(*command, options->sides.model.repositories);
  command->add_option("--size", options->size, "Image")->capture_default_str();
  command->add_option("--threads", options->sides.threads, "Threads; 0 = all available")
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Times that each is measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--clients", options->clients, "Clients at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--calls", options->calls,
                   "Small calls after 1.1 s of idling; 0 = leave them out")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print a list of objects instead of a table");
  command->callback([options] { RunServiceCommand(*options); });
}

}  // namespace upscaled::bench
