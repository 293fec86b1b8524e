import { channel } from 'node:diagnostics_channel'
import { createRequire } from 'node:module'

// Loaded by `--import` into every program that tests start. The rest comes with the first answer: most programs give none, and
// what is loaded before the program itself is not taken from its cache of compiled code.
const faultsFile = process.env.ANSWER_FAULTS_FILE
if (faultsFile !== undefined) {
  let check
  channel('castellan:tool-answer').subscribe((message) => {
    check ??= createRequire(import.meta.url)('./answer-check.ts')
    check.recordFault(faultsFile, message)
  })
}
