#include "tests/bench/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace upscaled::bench {
namespace {

void PrintJson(const std::vector<ReportRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ReportRow& row : rows) {
    nlohmann::ordered_json object = {
        {"name", row.name},
        {"shape", row.shape},
        {"precision", row.precision},
        {"threads", row.threads},
        {"seconds", row.measurement.seconds},
        {"gflops", row.measurement.gflops},
        {"peak_gflops", row.measurement.peak_gflops},
        {"ratio", row.measurement.ratio},
    };
    if (row.share >= 0) object["share"] = row.share;
    list.push_back(std::move(object));
  }
  std::printf("%s\n", list.dump(2).c_str());
}

void PrintTable(const std::vector<ReportRow>& rows) {
  std::printf("%-32s %-22s %-6s %3s %12s %9s %7s %6s %7s\n", "name", "shape", "prec.", "thr", "ms",
              "GFLOP/s", "peak", "ratio", "share");
  for (const ReportRow& row : rows) {
    const Measurement& m = row.measurement;
    std::printf("%-32s %-22s %-6s %3d %12.3f %9.1f %7.1f %6.2f", row.name.c_str(),
                row.shape.c_str(), row.precision.c_str(), row.threads, m.seconds * 1e3, m.gflops,
                m.peak_gflops, m.ratio);
    if (row.share >= 0) std::printf(" %6.1f%%", row.share * 100);
    std::printf("\n");
  }
}

}  // namespace

void PrintReport(const std::vector<ReportRow>& rows, bool json) {
  json ? PrintJson(rows) : PrintTable(rows);
}

}  // namespace upscaled::bench
