// Steps that are counted, each of which may fail.
let failed = 0;
let passed = 0;

export async function step(name, work) {
  try {
    const result = await work();
    passed += 1;
    return result;
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.message} ${JSON.stringify(error.validationErrors ?? '')}`);
    return undefined;
  }
}

export function end(what) {
  console.log(`${what}: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
