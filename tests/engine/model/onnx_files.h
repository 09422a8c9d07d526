// Writes ONNX models for the tests, through Protobuf's own writer.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "engine/model/onnx/schema.pb.h"

namespace upscaled::test {

// One operator with its attributes.
class OnnxNode {
 public:
  OnnxNode(const std::string& op, const std::vector<std::string>& inputs,
           const std::string& output) {
    proto_.set_op_type(op);
    proto_.set_name("the_" + output);
    for (const std::string& input : inputs) proto_.add_input(input);
    proto_.add_output(output);
  }

  OnnxNode& Int(const std::string& name, int64_t value) {
    New(name, onnx::AttributeProto::INT).set_i(value);
    return *this;
  }
  OnnxNode& Float(const std::string& name, float value) {
    New(name, onnx::AttributeProto::FLOAT).set_f(value);
    return *this;
  }
  OnnxNode& String(const std::string& name, const std::string& value) {
    New(name, onnx::AttributeProto::STRING).set_s(value);
    return *this;
  }
  OnnxNode& Ints(const std::string& name, std::initializer_list<int64_t> values) {
    New(name, onnx::AttributeProto::INTS).mutable_ints()->Assign(values.begin(), values.end());
    return *this;
  }
  OnnxNode& Floats(const std::string& name, std::initializer_list<float> values) {
    New(name, onnx::AttributeProto::FLOATS).mutable_floats()->Assign(values.begin(), values.end());
    return *this;
  }
  onnx::NodeProto& proto() { return proto_; }
  const onnx::NodeProto& proto() const { return proto_; }

 private:
  onnx::AttributeProto& New(const std::string& name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto& attribute = *proto_.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }

  onnx::NodeProto proto_;
};

// A model of one image "x" [1, 3, ?, ?] and one result "out".
class OnnxFile {
 public:
  OnnxFile() {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(17);
    onnx::ValueInfoProto& input = *graph().add_input();
    input.set_name("x");
    onnx::TypeProto::Tensor& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    for (const int64_t dim : {1, 3, 0, 0}) {
      auto* added = type.mutable_shape()->add_dim();
      if (dim != 0) added->set_dim_value(dim);
      if (dim == 0) added->set_dim_param("side");
    }
    graph().add_output()->set_name("out");
  }

  onnx::ModelProto& model() { return model_; }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  OnnxFile& Add(const OnnxNode& node) {
    *graph().add_node() = node.proto();
    return *this;
  }
  OnnxFile& Floats(const std::string& name, std::initializer_list<int64_t> dims,
                   const std::vector<float>& values) {
    onnx::TensorProto& tensor = New(name, dims, onnx::TensorProto::FLOAT);
    tensor.mutable_float_data()->Assign(values.begin(), values.end());
    return *this;
  }
  OnnxFile& Ints(const std::string& name, std::initializer_list<int64_t> values) {
    onnx::TensorProto& tensor =
        New(name, {static_cast<int64_t>(values.size())}, onnx::TensorProto::INT64);
    tensor.mutable_int64_data()->Assign(values.begin(), values.end());
    return *this;
  }
  // Ones, as the kernel of a convolution.
  OnnxFile& Kernel(const std::string& name, int64_t first, int64_t second, int64_t side) {
    return Floats(name, {first, second, side, side},
                  std::vector<float>(first * second * side * side, 1.0f));
  }

  std::string bytes() const { return model_.SerializeAsString(); }

 private:
  onnx::TensorProto& New(const std::string& name, std::initializer_list<int64_t> dims, int type) {
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.mutable_dims()->Assign(dims.begin(), dims.end());
    tensor.set_data_type(type);
    return tensor;
  }

  onnx::ModelProto model_;
};

}  // namespace upscaled::test
