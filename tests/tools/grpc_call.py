"""A client for any gRPC server, as grpcurl is one: grpcio, with the descriptors that the server's reflection gives.

    grpc_call.py DESCRIPTORS HOST:PORT list
    grpc_call.py DESCRIPTORS HOST:PORT describe SYMBOL
    grpc_call.py DESCRIPTORS HOST:PORT call SERVICE/METHOD JSON|@FILE [timeout=SECONDS] [cancel=SECONDS [keep=SECONDS]] [gzip] [ca=FILE] [NAME: VALUE…]

DESCRIPTORS is a file with the descriptors of the reflection service itself: protoc's FileDescriptorSet. Prints the answer in JSON,
or the status and its message. After a cancelled call, its connection stays open for keep=SECONDS.
"""
import sys
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory


class Contract:
    def __init__(self, descriptors, channel, version="v1"):
        self.pool = descriptor_pool.DescriptorPool()
        self.known = set()
        with open(descriptors, "rb") as file:
            for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
                self.add(proto)
        self.version = version
        self.channel = channel
        self.request = self.message(f"grpc.reflection.{version}.ServerReflectionRequest")
        self.ask = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self.message(f"grpc.reflection.{version}.ServerReflectionResponse").FromString,
        )

    def message(self, name):
        return message_factory.MessageFactory(self.pool).GetPrototype(self.pool.FindMessageTypeByName(name))

    def add(self, proto):
        if proto.name not in self.known:
            self.known.add(proto.name)
            self.pool.Add(proto)

    def one(self, **question):
        return next(iter(self.ask(iter([self.request(**question)]), timeout=10)))

    def services(self):
        return [service.name for service in self.one(list_services="*").list_services_response.service]

    def learn(self, **question):
        """Adds the file that answers the question, after those that it imports."""
        answer = self.one(**question)
        if answer.HasField("error_response"):
            raise SystemExit(f"{answer.error_response.error_code}: {answer.error_response.error_message}")
        for data in answer.file_descriptor_response.file_descriptor_proto:
            proto = descriptor_pb2.FileDescriptorProto.FromString(data)
            for imported in proto.dependency:
                if imported not in self.known:
                    self.learn(file_by_filename=imported)
            self.add(proto)

    def method(self, path):
        service, name = path.split("/")
        self.learn(file_containing_symbol=service)
        return self.pool.FindServiceByName(service).methods_by_name[name]


def describe(contract, symbol):
    contract.learn(file_containing_symbol=symbol)
    try:
        service = contract.pool.FindServiceByName(symbol)
        for method in service.methods:
            print(f"{method.name}({method.input_type.full_name}) {method.output_type.full_name}")
    except KeyError:
        for field in contract.pool.FindMessageTypeByName(symbol).fields:
            print(f"{field.name} = {field.number}")


def call(contract, path, text, options):
    method = contract.method(path)
    metadata = [tuple(option.split(": ", 1)) for option in options if ": " in option]
    settings = dict(option.split("=", 1) for option in options if "=" in option and ": " not in option)
    if text.startswith("@"):
        with open(text[1:]) as file:
            text = file.read()
    request = json_format.Parse(text, contract.message(method.input_type.full_name)())
    kind = contract.channel.unary_stream if method.server_streaming else contract.channel.unary_unary
    stub = kind(
        "/" + path,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=contract.message(method.output_type.full_name).FromString,
    )
    try:
        if method.server_streaming:
            for message in stub(request, metadata=metadata, timeout=float(settings.get("timeout", 60))):
                print(json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True), flush=True)
            return
        pending = stub.future(
            request,
            metadata=metadata,
            timeout=float(settings.get("timeout", 30)),
            compression=grpc.Compression.Gzip if "gzip" in options else None,
        )
        if "cancel" in settings:
            try:
                pending.result(timeout=float(settings["cancel"]))
            except grpc.FutureTimeoutError:
                pending.cancel()
                print("cancelled", flush=True)
                time.sleep(float(settings.get("keep", 0)))
                return
        print(json_format.MessageToJson(pending.result(), indent=None, preserving_proto_field_name=True))
    except grpc.RpcError as error:
        print(f"{error.code().name}: {error.details()}")


def main(descriptors, address, command, *arguments):
    ca = [argument[3:] for argument in arguments if argument.startswith("ca=")]
    if ca:
        with open(ca[0], "rb") as file:
            channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(file.read()))
    else:
        channel = grpc.insecure_channel(address, options=[("grpc.enable_retries", 0)])
    contract = Contract(descriptors, channel, "v1alpha" if command.endswith("-alpha") else "v1")
    if command.startswith("list"):
        print("\n".join(sorted(contract.services())))
    elif command == "describe":
        describe(contract, arguments[0])
    else:
        call(contract, arguments[0], arguments[1], arguments[2:])


main(*sys.argv[1:])
