#include "server/telemetry/metrics.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RequestRecord OkRequest() {
  RequestRecord record;
  record.transport = "grpc";
  record.method = "UpscaleImage";
  record.source_pixels = 100;
  record.result_pixels = 400;
  record.spared_pixels = 30;
  record.received_bytes = 11;
  record.sent_bytes = 22;
  record.total = absl::Milliseconds(300);
  record.decode = absl::Milliseconds(20);
  record.encode = absl::Milliseconds(40);
  return record;
}

TEST(ServerMetricsTest, CountsForTenantsWithLimitsAlone) {
  ServerMetrics metrics({"1.2.3", "cpu"}, absl::FromUnixSeconds(1000));
  RequestRecord record = OkRequest();
  record.tenant = "unlisted";
  record.cost = 5;
  metrics.OnRequest(record);
  record.tenant = "shop";
  record.tenant_has_limits = true;
  metrics.OnRequest(record);
  record.code = absl::StatusCode::kResourceExhausted;
  record.reason = "OVERLOADED";
  record.limit = "tenant.calls";
  metrics.OnRequest(record);
  const std::string text = metrics.Render({});
  EXPECT_THAT(text, HasSubstr("upscaled_tenant_calls_total{code=\"OK\",tenant=\"shop\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_tenant_calls_total{code=\"RESOURCE_EXHAUSTED\",tenant="
                              "\"shop\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_tenant_refused_total{limit=\"tenant.calls\",tenant="
                              "\"shop\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_tenant_cost_total{tenant=\"shop\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_tenant_received_bytes_total{tenant=\"shop\"} 22\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_tenant_sent_bytes_total{tenant=\"shop\"} 44\n"));
  EXPECT_EQ(text.find("unlisted"), std::string::npos);
}

TEST(ServerMetricsTest, CountsRequestsByMethodCodeAndReason) {
  ServerMetrics metrics({"1.2.3", "cpu"}, absl::FromUnixSeconds(1000));
  RequestRecord failed;
  failed.transport = "http";
  failed.method = "Upscale";
  failed.code = absl::StatusCode::kInvalidArgument;
  failed.reason = "INVALID_IMAGE";
  failed.fetched_from = "https://a.example";
  metrics.OnRequest(OkRequest());
  metrics.OnRequest(OkRequest());
  metrics.OnRequest(failed);
  const std::string text = metrics.Render({});
  EXPECT_THAT(
      text,
      HasSubstr(
          "upscaled_requests_total{code=\"OK\",method=\"UpscaleImage\",transport=\"grpc\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_requests_total{code=\"INVALID_ARGUMENT\",method="
                              "\"Upscale\",transport=\"http\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_request_failures_total{reason=\"INVALID_IMAGE\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("upscaled_request_duration_seconds_count{method=\"UpscaleImage\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("upscaled_request_duration_seconds_sum{method=\"UpscaleImage\"} 0.6\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_request_duration_seconds_bucket{method=\"UpscaleImage\","
                              "le=\"0.25\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_decode_duration_seconds_sum 0.04\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_decode_duration_seconds_count 2\n"))
      << "a call that decoded nothing is not counted";
  EXPECT_THAT(text, HasSubstr("upscaled_encode_duration_seconds_sum 0.08\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_source_pixels_total 200\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_result_pixels_total 800\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_spared_pixels_total 60\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_received_bytes_total 22\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_fetched_sources_total 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_sent_bytes_total 44\n"));
}

TEST(ServerMetricsTest, CountsBatches) {
  ServerMetrics metrics({"1.2.3", "cpu"}, absl::Now());
  const std::vector<absl::Duration> queue = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(4)};
  metrics.OnBatch({queue, absl::Milliseconds(250), 300, absl::OkStatus(), "cpu", absl::Seconds(1)});
  metrics.OnBatch({{queue.data(), 1}, absl::Milliseconds(250), 50, absl::InternalError(""), "cpu"});
  metrics.OnDropped(7);
  const std::string text = metrics.Render({});
  EXPECT_THAT(text, HasSubstr("upscaled_queue_duration_seconds_sum 8\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_queue_duration_seconds_count 4\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_infer_duration_seconds_sum 0.5\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_infer_duration_seconds_count 2\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_batch_tiles_bucket{le=\"1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_batch_tiles_bucket{le=\"4\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_batch_failures_total 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_tiles_total 4\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_tile_pixels_total 350\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_dropped_tiles_total 7\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_device_busy_seconds_total{device=\"cpu\"} 1\n"));
}

TEST(ServerMetricsTest, CountsByModelOfTheCatalogue) {
  ServerMetrics metrics({"1.2.3", "cpu"}, absl::Now());
  RequestRecord record{.model = "general-2x", .cost = 10, .infer = absl::Milliseconds(500)};
  metrics.OnRequest(record);
  metrics.OnRequest(record);
  record.model = "1x-dejpg,general-2x";
  metrics.OnRequest(record);
  record.model = "a-client's-invention";
  record.cost = 0;
  metrics.OnRequest(record);
  const std::string text = metrics.Render({});
  EXPECT_THAT(text, HasSubstr("upscaled_model_requests_total{model=\"general-2x\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_model_cost_total{model=\"general-2x\"} 20\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_model_infer_seconds_total{model=\"general-2x\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_model_requests_total{model=\"several\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("invention")));
}

TEST(ServerMetricsTest, TellsOfDevices) {
  ServerMetrics metrics({"1.2.3", "cpu"}, absl::Now());
  const std::string text = metrics.Render({.devices = {{"cuda:0", true, 4, 1 << 20}}});
  EXPECT_THAT(text, HasSubstr("upscaled_device_up{device=\"cuda:0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_device_streams{device=\"cuda:0\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_device_weight_bytes{device=\"cuda:0\"} 1048576\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_device_busy_seconds_total{device=\"cuda:0\"} 0\n"));
}

TEST(ServerMetricsTest, TellsOfGpusWhileTheirDriverDoes) {
  ServerMetrics metrics({"1.2.3", "cpu"}, absl::Now());
  DeviceReading device = {.name = "cuda:0"};
  EXPECT_THAT(metrics.Render({.devices = {device}}), Not(HasSubstr("upscaled_gpu_memory_bytes{")));
  device.gpu = {.memory_used_bytes = 3 << 20, .memory_bytes = 8 << 20, .utilization = 0.25};
  const std::string text = metrics.Render({.devices = {device}});
  EXPECT_THAT(text, HasSubstr("upscaled_gpu_memory_used_bytes{device=\"cuda:0\"} 3145728\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_gpu_memory_bytes{device=\"cuda:0\"} 8388608\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_gpu_utilization_ratio{device=\"cuda:0\"} 0.25\n"));
  device.gpu = {.memory_used_bytes = 4 << 20};
  const std::string without = metrics.Render({.devices = {device}});
  EXPECT_THAT(without, HasSubstr("upscaled_gpu_memory_used_bytes{device=\"cuda:0\"} 4194304\n"));
  EXPECT_THAT(without, Not(HasSubstr("upscaled_gpu_memory_bytes{")));
  EXPECT_THAT(without, Not(HasSubstr("upscaled_gpu_utilization_ratio{")));
}

TEST(ServerMetricsTest, RendersTheGaugesItIsGiven) {
  ServerMetrics metrics({"1.2.3", "cpu"}, absl::FromUnixSeconds(1000));
  metrics.Render({.requests_in_flight = 99});
  const std::string text = metrics.Render({.requests_in_flight = 1,
                                           .queue_pixels = 2,
                                           .queue_cost = 240'000,
                                           .queue_time = absl::Milliseconds(500),
                                           .queue_tiles = 3,
                                           .memory_reserved_bytes = 4,
                                           .memory_scratch_bytes = 9,
                                           .memory_budget_bytes = int64_t{1} << 35,
                                           .models_loaded = 6,
                                           .models_refused = 2,
                                           .ready = true,
                                           .process = {.open_fds = 7,
                                                       .max_fds = 8,
                                                       .threads = 9,
                                                       .max_threads = 10,
                                                       .resident_bytes = 11,
                                                       .max_memory_bytes = 12,
                                                       .virtual_bytes = 13,
                                                       .cpu_seconds = 14.5},
                                           .log_lines_limited = 15,
                                           .log_lines_lost = 16});
  EXPECT_THAT(text, HasSubstr("upscaled_requests_in_flight 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_queue_pixels 2\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_queue_cost 240000\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_queue_seconds 0.5\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_queue_tiles 3\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_memory_reserved_bytes 4\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_memory_scratch_bytes 9\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_memory_budget_bytes 34359738368\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_models_loaded 6\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_models_refused 2\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_build_info{device=\"cpu\",version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("process_start_time_seconds 1000\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_ready 1\n"));
  EXPECT_THAT(text, HasSubstr("process_open_fds 7\n"));
  EXPECT_THAT(text, HasSubstr("process_max_fds 8\n"));
  EXPECT_THAT(text, HasSubstr("process_threads 9\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_threads_limit 10\n"));
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes 11\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_memory_limit_bytes 12\n"));
  EXPECT_THAT(text, HasSubstr("process_virtual_memory_bytes 13\n"));
  EXPECT_THAT(text, HasSubstr("process_cpu_seconds_total 14.5\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_log_lines_dropped_total{cause=\"limit\"} 15\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_log_lines_dropped_total{cause=\"lost\"} 16\n"));
}

TEST(ServerMetricsTest, TellsOfDevicesAndTheirFailures) {
  ServerMetrics metrics({"1.2.3", "cpu,cuda:0"}, absl::Now());
  metrics.OnDeviceFailed("cuda:0");
  metrics.OnMoved(3);
  const std::string text = metrics.Render(
      {.devices = {{"cpu", true}, {"cuda:0", false}},
       .device_classes = {{"cuda:0,cuda:1", absl::Milliseconds(1500)}, {"cpu", {}}}});
  EXPECT_THAT(text, HasSubstr("upscaled_device_up{device=\"cpu\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_device_up{device=\"cuda:0\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_backlog_seconds{devices=\"cuda:0,cuda:1\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_backlog_seconds{devices=\"cpu\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_device_failures_total{device=\"cuda:0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_moved_tiles_total 3\n"));
}

TEST(ServerMetricsTest, TellsWhereResultsCameFrom) {
  ServerMetrics metrics({.version = "1", .device = "cpu"}, absl::UnixEpoch());
  GaugeReadings readings;
  readings.results = {.computed = 3,
                      .shared = 5,
                      .stored = 7,
                      .unmodified = 9,
                      .cache_results = 2,
                      .cache_bytes = 1234,
                      .cache_evictions = 6,
                      .cache_errors = 1};
  metrics.Render(readings);
  const std::string text = metrics.Render(readings);  // counters do not count twice
  EXPECT_THAT(text, HasSubstr("upscaled_results_total{from=\"computed\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_results_total{from=\"shared\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_results_total{from=\"stored\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_results_total{from=\"unmodified\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_result_cache_results 2\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_result_cache_bytes 1234\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_result_cache_evictions_total 6\n"));
  EXPECT_THAT(text, HasSubstr("upscaled_result_cache_errors_total 1\n"));
}

TEST(ServerMetricsTest, CountsExactlyFromManyThreads) {
  ServerMetrics metrics({"1.2.3", "cpu"}, absl::Now());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 250; ++i) {
        metrics.OnRequest(OkRequest());
        metrics.OnDropped(1);
        if (i % 50 == 0) metrics.Render({});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(metrics.Render({}), HasSubstr("upscaled_requests_total{code=\"OK\",method="
                                            "\"UpscaleImage\",transport=\"grpc\"} 1000\n"));
  EXPECT_THAT(metrics.Render({}), HasSubstr("upscaled_dropped_tiles_total 1000\n"));
}

}  // namespace
}  // namespace upscaled::server
