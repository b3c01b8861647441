import { CID } from 'multiformats/cid';
import * as json from 'multiformats/codecs/json';
import { sha256 } from 'multiformats/hashes/sha2';

// Returns the address of a value, by the libraries that MoltNet uses.
export async function jsonCid(value) {
  return CID.createV1(json.code, await sha256.digest(json.encode(value))).toString();
}
