#include "client/cli/info_commands.h"

#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/cli/forced_exit.h"
#include "client/cli/interrupt.h"
#include "client/cli/model_commands.h"
#include "google/protobuf/message.h"
#include "proto/json/message_json.h"

namespace upscaled::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

struct InfoFlags {
  ConnectionFlags connection;
  bool json = false;
  bool reload = false;        // For `models`.
  std::string service;        // For `health`.
  v1::GetUsageRequest usage;  // For `usage`.
};

std::string FormatNames(const google::protobuf::RepeatedField<int>& formats) {
  return absl::StrJoin(formats, ", ", [](std::string* out, int format) {
    out->append(FormatName(static_cast<v1::ImageFormat>(format)));
  });
}

std::string PrecisionNames(const google::protobuf::RepeatedField<int>& precisions) {
  return absl::StrJoin(precisions, ",", [](std::string* out, int precision) {
    out->append(PrecisionName(static_cast<v1::Precision>(precision)));
  });
}

void PrintRefused(const google::protobuf::RepeatedPtrField<v1::RefusedModel>& models) {
  if (models.empty()) return;
  absl::PrintF("refused:\n");
  for (const v1::RefusedModel& model : models) {
    absl::PrintF("  %-24s %s\n", model.name(), model.reason());
  }
}

void PrintModels(const v1::ListModelsResponse& response) {
  constexpr char kRow[] =
      "%-1s %-24s %-10s %-12s %-8s %-12s %-12s %-5s %9s %9s %7s %-12s %-12s %s\n";
  absl::PrintF(kRow, "", "NAME", "SCALES", "NOISE", "STYLE", "PRECISION", "ARCHITECTURE", "INPUT",
               "MAC/PIXEL", "MEMORY MB", "S/MP", "LICENCE", "ALIASES", "DESCRIPTION");
  for (const v1::Model& model : response.models()) {
    const double seconds = model.seconds_per_megapixel();
    absl::PrintF(kRow, model.is_default() ? "*" : "", model.name(),
                 absl::StrJoin(model.scales(), ","), absl::StrJoin(model.noise_levels(), ","),
                 model.style(), PrecisionNames(model.precisions()),
                 model.architecture().empty() ? "-" : model.architecture(),
                 model.input_channels() == 1 ? "luma" : "RGB",
                 absl::StrFormat("%.0f", model.multiply_adds_per_pixel()),
                 absl::StrFormat("%.0f", static_cast<double>(model.memory_bytes()) / 1e6),
                 seconds > 0 ? absl::StrFormat("%.3f", seconds) : "-",
                 model.licence().empty() ? "unstated" : model.licence(),
                 absl::StrJoin(model.aliases(), ","), model.description());
  }
  absl::PrintF(
      "* default; ARCHITECTURE: of files of tensors; others hold the layers; MEMORY: once it "
      "is loaded;\nS/MP: seconds a megapixel of the result has taken here\n");
  PrintRefused(response.refused());
}

void PrintReload(const v1::ReloadModelsResponse& report) {
  const struct {
    const char* what;
    const google::protobuf::RepeatedPtrField<std::string>& names;
  } kRows[] = {{"added", report.added()},
               {"changed", report.changed()},
               {"removed", report.removed()},
               {"unchanged", report.unchanged()}};
  for (const auto& [what, names] : kRows) {
    absl::PrintF("%-9s  %s\n", what, names.empty() ? "-" : absl::StrJoin(names, ", "));
  }
  PrintRefused(report.refused());
}

void PrintUsage(const v1::GetUsageResponse& response) {
  absl::PrintF("%-10s  %-20s %9s %9s %12s %12s %12s %11s %11s\n", "DAY", "TENANT", "CALLS",
               "REFUSED", "COST GMAC", "RECEIVED MB", "SENT MB", "SOURCE MP", "RESULT MP");
  for (const v1::TenantUsage& usage : response.usage()) {
    absl::PrintF("%-10s  %-20s %9d %9d %12.1f %12.1f %12.1f %11.1f %11.1f\n", usage.day(),
                 usage.tenant().empty() ? "-" : usage.tenant(), usage.calls(), usage.refusals(),
                 static_cast<double>(usage.cost()) / 1e9,
                 static_cast<double>(usage.received_bytes()) / 1e6,
                 static_cast<double>(usage.sent_bytes()) / 1e6,
                 static_cast<double>(usage.source_pixels()) / 1e6,
                 static_cast<double>(usage.result_pixels()) / 1e6);
  }
}

// "    kernel  conv3x3_ws: slow, 0.91 times as fast: the shipped kernels are faster"
void PrintKernels(const v1::Device& device) {
  for (const v1::KernelVerdict& kernel : device.kernels()) {
    absl::PrintF("    kernel  %s: %s%s%s%s\n", kernel.kernel(), kernel.verdict(),
                 kernel.times_as_fast() > 0
                     ? absl::StrFormat(", %.2f times as fast", kernel.times_as_fast())
                     : "",
                 kernel.reason().empty() ? "" : ": ", kernel.reason());
  }
}

void PrintDevices(const v1::GetServerInfoResponse& info) {
  for (const v1::Device& device : info.devices()) {
    absl::PrintF("device  %s: %s, %d streams%s\n", device.name(), device.description(),
                 device.streams(),
                 device.state() == v1::DEVICE_STATE_FAILED ? ", failed: " + device.error() : "");
    PrintKernels(device);
  }
}

void PrintInfo(const v1::GetServerInfoResponse& info) {
  const v1::Limits& limits = info.limits();
  absl::PrintF("upscaled %s\n", info.version());
  PrintDevices(info);
  absl::PrintF("reads   %s\nwrites  %s\n", FormatNames(info.input_formats()),
               FormatNames(info.output_formats()));
  absl::PrintF("limits\n");
  const struct {
    const char* name;
    int64_t value;
  } kRows[] = {{"source pixels", limits.max_source_pixels()},
               {"result pixels", limits.max_result_pixels()},
               {"source bytes", limits.max_source_bytes()},
               {"metadata bytes", limits.max_metadata_bytes()},
               {"JPEG scans", limits.max_jpeg_scans()},
               {"frames of an animation", limits.max_frames()},
               {"bytes of a unary call", limits.max_unary_bytes()},
               {"pixels of a raw tile", limits.max_tile_pixels()},
               {"requests at a time", limits.max_concurrent_requests()},
               {"queued pixels of general-2x", limits.max_queue_pixels()}};
  for (const auto& [name, value] : kRows) absl::PrintF("  %-22s %d\n", name, value);
}

// Prints `response` as JSON or with `print`, or the error.
template <typename Response>
int Show(const absl::StatusOr<Response>& response, bool json, void (*print)(const Response&)) {
  if (!response.ok()) return Fail(response.status());
  if (json) {
    absl::PrintF("%s\n", MessageToJson(*response, /*indented=*/true));
  } else {
    print(*response);
  }
  return kExitOk;
}

int RunReload(const InfoFlags& flags) {
  const Interrupt interrupt;
  if (flags.connection.local) {
    return Fail(absl::InvalidArgumentError("--reload is for a server that runs, not for --local"));
  }
  const auto client = flags.connection.MakeAdminClient();
  if (!client.ok()) return Fail(client.status());
  const ForcedExit end(flags.connection.timeout());
  return Show((*client)->ReloadModels(interrupt.token()), flags.json, PrintReload);
}

int RunUsage(const InfoFlags& flags) {
  const Interrupt interrupt;
  const auto client = flags.connection.MakeAdminClient();
  if (!client.ok()) return Fail(client.status());
  const ForcedExit end(flags.connection.timeout());
  return Show((*client)->GetUsage(flags.usage, interrupt.token()), flags.json, PrintUsage);
}

int RunModels(const InfoFlags& flags) {
  if (flags.reload) return RunReload(flags);
  const Interrupt interrupt;
  const auto connection = flags.connection.Connect(interrupt.token());
  if (!connection.ok()) return Fail(connection.status());
  const ForcedExit end(flags.connection.timeout());
  return Show(connection->service->ListModels(interrupt.token()), flags.json, PrintModels);
}

int ShowServerInfo(const InfoFlags& flags, void (*print)(const v1::GetServerInfoResponse&)) {
  const Interrupt interrupt;
  const auto connection = flags.connection.Connect(interrupt.token());
  if (!connection.ok()) return Fail(connection.status());
  const ForcedExit end(flags.connection.timeout());
  return Show(connection->service->ServerInfo(interrupt.token()), flags.json, print);
}

int RunInfo(const InfoFlags& flags) { return ShowServerInfo(flags, PrintInfo); }
int RunDevices(const InfoFlags& flags) { return ShowServerInfo(flags, PrintDevices); }

int RunHealth(const InfoFlags& flags) {
  const Interrupt interrupt;
  const auto connection = flags.connection.Connect(interrupt.token());
  if (!connection.ok()) return Fail(connection.status());
  const ForcedExit end(flags.connection.timeout());
  const auto status = connection->service->CheckHealth(flags.service, interrupt.token());
  if (!status.ok()) return Fail(status.status());
  absl::PrintF("%s\n", HealthCheckResponse::ServingStatus_Name(*status));
  return *status == HealthCheckResponse::SERVING ? kExitOk : kExitNotServing;
}

// Adds a command with InfoFlags.
CLI::App* AddCommand(CLI::App& app, int& exit_code, const char* name, const char* description,
                     std::shared_ptr<InfoFlags> flags, int (*run)(const InfoFlags&)) {
  CLI::App* command = app.add_subcommand(name, description);
  flags->connection.AddTo(*command);
  command->callback([flags, run, &exit_code] { exit_code = run(*flags); });
  return command;
}

}  // namespace

void AddModelsCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App* command =
      AddCommand(app, exit_code, "models", "List the server's models", flags, RunModels);
  flags->connection.AddLocalTo(*command);
  command->add_flag("--json", flags->json, "Print JSON");
  command->add_flag(
      "--reload", flags->reload,
      "Make the server read its model directories again, and say what changed; --server is "
      "its --admin address here, 127.0.0.1:8002 by default");
  AddModelFileCommands(*command, exit_code);
  // After the callbacks of its subcommands; these do the work.
  command->callback([flags, command, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = RunModels(*flags);
  });
}

void AddInfoCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App* command = AddCommand(app, exit_code, "info",
                                 "Show the server's version, devices and limits", flags, RunInfo);
  flags->connection.AddLocalTo(*command);
  command->add_flag("--json", flags->json, "Print JSON");
}

void AddDevicesCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App* command = AddCommand(app, exit_code, "devices",
                                 "Show the server's devices, and kernels that had to prove "
                                 "themselves there",
                                 flags, RunDevices);
  flags->connection.AddLocalTo(*command);
  command->add_flag("--json", flags->json, "Print JSON, as info does");
}

void AddUsageCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App* command =
      AddCommand(app, exit_code, "usage", "Show what tenants used, day by day", flags, RunUsage);
  const auto add = [&](const char* name, const char* type, std::string& field, const char* help) {
    command->add_option(name, field, help)->type_name(type);
  };
  add("--from", "DAY", *flags->usage.mutable_first_day(),
      "First day, of UTC, like 2026-11-23; default: the last one");
  add("--to", "DAY", *flags->usage.mutable_last_day(), "Last day; default: today");
  add("--tenant", "NAME", *flags->usage.mutable_tenant(), "Only this tenant's");
  command->add_flag("--json", flags->json, "Print JSON");
  command->footer(
      "\nAsks the server's --admin address, 127.0.0.1:8002 by default, of a server with "
      "--usage-db.");
}

void AddHealthCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InfoFlags>();
  flags->connection.timeout_s = 5;
  CLI::App* command =
      AddCommand(app, exit_code, "health", "Ask whether the server takes calls", flags, RunHealth);
  command
      ->add_option("--service", flags->service,
                   "Full name of a gRPC service; default: the whole server")
      ->type_name("NAME");
  command->footer(
      "\nExit status, as grpc_health_probe has it: 0 serving, 1 bad arguments, 2 cannot connect,\n"
      "3 the call failed, 4 not serving.");
}

}  // namespace upscaled::client
