import { chmodSync, closeSync, fstatSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach } from 'vitest'
import { ANSWERS_FILE_VARIABLE, toldFault, watchAnswers } from './answer-check.ts'

/** In every test file: no answer of the program, here or in a process that the test started, may miss its schema. */
const directory = mkdtempSync(join(tmpdir(), 'castellan-answers-'))
const answersFile = join(directory, 'answers')
writeFileSync(answersFile, '')
chmodSync(directory, 0o755)
chmodSync(answersFile, 0o666)
process.env[ANSWERS_FILE_VARIABLE] = answersFile
const faults: string[] = []
watchAnswers((fault) => faults.push(fault))
const told = openSync(answersFile, 'r')
let readTo = 0

/** Whole lines only: a program may be writing. */
function readTold(): void {
  const bytes = Buffer.alloc(fstatSync(told).size - readTo)
  readSync(told, bytes, 0, bytes.length, readTo)
  const end = bytes.lastIndexOf('\n')
  readTo += end + 1
  if (end < 0) return
  for (const line of bytes.toString('utf8', 0, end).split('\n')) {
    const fault = toldFault(line)
    if (fault !== undefined) faults.push(fault)
  }
}

function requireNoFaults(): void {
  readTold()
  if (faults.length === 0) return
  throw new Error(`answers that miss the output schema of their tool:\n${faults.splice(0).join('\n')}`)
}

afterEach(requireNoFaults)
afterAll(() => {
  try {
    requireNoFaults()
  } finally {
    closeSync(told)
    rmSync(directory, { recursive: true, force: true })
  }
})
