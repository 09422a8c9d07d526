#include "server/rpc/reflection.h"

#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include <grpcpp/support/status_code_enum.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/rpc/typed_method.h"

namespace upscaled::server {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ExtensionRequest;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

namespace {

const DescriptorPool& Contracts() { return *DescriptorPool::generated_pool(); }

// The file's description. It never changes.
const std::string& DescriptionOf(const FileDescriptor& file) {
  static absl::Mutex mutex;
  static auto& known = *new std::map<const FileDescriptor*, std::string>;
  absl::MutexLock lock(&mutex);
  std::string& bytes = known[&file];
  if (bytes.empty()) {
    google::protobuf::FileDescriptorProto description;
    file.CopyTo(&description);
    bytes = description.SerializeAsString();
  }
  return bytes;
}

// Adds the file, since tools look for it in the first place, and all its imports, each once.
void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
             grpc::reflection::v1::FileDescriptorResponse& files) {
  if (!added.insert(&file).second) return;
  files.add_file_descriptor_proto(DescriptionOf(file));
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), added, files);
}

void SetNotFound(std::string_view kind, const std::string& name,
                 ServerReflectionResponse& response) {
  auto& error = *response.mutable_error_response();
  error.set_error_code(grpc::StatusCode::NOT_FOUND);
  error.set_error_message(absl::StrCat("there is no ", std::string(kind), " ", name, " here"));
}

// `file` may be null.
void SetFile(const FileDescriptor* file, std::string_view kind, const std::string& name,
             ServerReflectionResponse& response) {
  if (file == nullptr) return SetNotFound(kind, name, response);
  std::set<const FileDescriptor*> added;
  AddFile(*file, added, *response.mutable_file_descriptor_response());
}

void SetFileOfExtension(const ExtensionRequest& request, ServerReflectionResponse& response) {
  const Descriptor* type = Contracts().FindMessageTypeByName(request.containing_type());
  const FieldDescriptor* field =
      type == nullptr ? nullptr
                      : Contracts().FindExtensionByNumber(type, request.extension_number());
  SetFile(field == nullptr ? nullptr : field->file(), "extension",
          absl::StrCat(request.extension_number(), " of ", request.containing_type()), response);
}

void SetExtensionNumbers(const std::string& name, ServerReflectionResponse& response) {
  const Descriptor* type = Contracts().FindMessageTypeByName(name);
  if (type == nullptr) return SetNotFound("message type", name, response);
  std::vector<const FieldDescriptor*> extensions;
  Contracts().FindAllExtensions(type, &extensions);
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(name);
  for (const FieldDescriptor* field : extensions) numbers.add_extension_number(field->number());
}

// "upscale.v1.UpscaleService" of "/upscale.v1.UpscaleService/Upscale".
std::string ServiceOf(const std::string& path) {
  return std::vector<std::string>(absl::StrSplit(path, '/'))[1];
}

}  // namespace

Reflection::Reflection(std::vector<std::string> services) : services_(std::move(services)) {}

ServerReflectionResponse Reflection::Answer(const ServerReflectionRequest& request) const {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFile(Contracts().FindFileByName(request.file_by_filename()), "file",
              request.file_by_filename(), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(Contracts().FindFileContainingSymbol(request.file_containing_symbol()), "symbol",
              request.file_containing_symbol(), response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      SetFileOfExtension(request.file_containing_extension(), response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensionNumbers(request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& service : services_) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(grpc::StatusCode::INVALID_ARGUMENT);
      response.mutable_error_response()->set_error_message("the message has no question");
      break;
  }
  return response;
}

void AddReflectionMethods(MethodTable& methods) {
  constexpr const char* kServices[] = {
      grpc::reflection::v1::ServerReflection::service_full_name(),
      grpc::reflection::v1alpha::ServerReflection::service_full_name()};
  std::set<std::string> names(std::begin(kServices), std::end(kServices));
  for (const auto& [path, method] : methods) names.insert(ServiceOf(path));
  const auto reflection =
      std::make_shared<Reflection>(std::vector<std::string>(names.begin(), names.end()));
  for (const char* service : kServices) {
    Method method{.path = absl::StrCat("/", service, "/ServerReflectionInfo"),
                  .name = "ServerReflectionInfo",
                  .request = &ServerReflectionRequest::default_instance(),
                  .max_first_message_bytes = kMaxSmallMessageBytes,
                  .role = Role::kRead};
    method.reply = UnaryHandler<ServerReflectionRequest, ServerReflectionResponse>(
        [reflection](CallContext, const auto& request, auto& response) {
          response = reflection->Answer(request);
          return absl::OkStatus();
        });
    methods.emplace(method.path, std::move(method));
  }
}

}  // namespace upscaled::server
