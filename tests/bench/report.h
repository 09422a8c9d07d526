// What a bench prints: a table for people or, with --json, a list of objects.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/measure.h"

namespace upscaled::bench {

struct ReportRow {
  std::string name;
  std::string shape;
  std::string precision = "exact";
  int threads = 1;
  Measurement measurement;
  double share = -1;  // of the whole, where the row is a part; -1: it is not
};

void PrintReport(const std::vector<ReportRow>& rows, bool json);

}  // namespace upscaled::bench
