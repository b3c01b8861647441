// HTTP/2 servers: over TLS on 443, with HTTP/1.1 for clients that know nothing newer, and in the clear
// with prior knowledge on 8080. Each answer has trailers, as gRPC's have.
import http2 from "node:http2";
import fs from "node:fs";

const [dir, address] = process.argv.slice(2);
const log = (line) => fs.appendFileSync(`${dir}/seen`, JSON.stringify(line) + "\n");

function answer(request, response) {
  const { headers, httpVersion } = request;
  log({ h2: httpVersion, path: request.url, headers });
  let length = 0;
  request.on("data", (chunk) => (length += chunk.length));
  request.on("end", () => {
    if (request.url === "/big") {
      return response.end(Buffer.alloc(8 << 20, "x"));
    }
    if (httpVersion === "2.0") {
      response.setHeader("content-type", "application/grpc");
      response.setHeader("x-echo", headers.authorization ?? "");
      response.addTrailers({ "grpc-status": "0", "x-last": headers.authorization ?? "none" });
      response.end(`h2 ${headers[":authority"]} te=${headers.te} ${length}\n`);
    } else {
      response.end(`http/${httpVersion} ${headers.host} ${length}\n`);
    }
  });
}

const tls = { cert: fs.readFileSync(`${dir}/server.pem`), key: fs.readFileSync(`${dir}/server.key`) };
http2.createSecureServer({ ...tls, allowHTTP1: true }, answer).listen(443, address);
http2.createServer(answer).listen(8080, address);
