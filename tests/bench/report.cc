#include "tests/bench/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/bench/machine.h"

namespace upscaled::bench {
namespace {

void PrintJson(const std::vector<ReportRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ReportRow& row : rows) {
    if (row.measurement.seconds == 0) {
      list.push_back({{"name", row.name},
                      {"shape", row.shape},
                      {"precision", row.precision},
                      {"error", row.note}});
      continue;
    }
    list.push_back({
        {"name", row.name},
        {"shape", row.shape},
        {"precision", row.precision},
        {"threads", row.threads},
        {"seconds", row.measurement.seconds},
        {"gflops", row.measurement.gflops},
        {"peak_gflops", row.measurement.peak_gflops},
        {"ratio", row.measurement.ratio},
    });
  }
  std::printf("%s\n", list.dump(2).c_str());
}

void PrintTable(const std::vector<ReportRow>& rows) {
  PrintMachine();
  std::printf("%-26s %-26s %-6s %3s %10s %9s %7s %6s\n", "name", "shape", "prec.", "thr", "ms",
              "GFLOP/s", "peak", "ratio");
  for (const ReportRow& row : rows) {
    const Measurement& m = row.measurement;
    if (m.seconds == 0) {
      std::printf("%-26s %-26s %-6s %s\n", row.name.c_str(), row.shape.c_str(),
                  row.precision.c_str(), row.note.c_str());
      continue;
    }
    std::printf("%-26s %-26s %-6s %3d %10.3f %9.1f %7.1f %6.2f  %s\n", row.name.c_str(),
                row.shape.c_str(), row.precision.c_str(), row.threads, m.seconds * 1e3, m.gflops,
                m.peak_gflops, m.ratio, row.note.c_str());
  }
}

}  // namespace

void PrintReport(const std::vector<ReportRow>& rows, bool json) {
  json ? PrintJson(rows) : PrintTable(rows);
}

}  // namespace upscaled::bench
