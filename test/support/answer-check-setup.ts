import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach } from 'vitest'
import { FAULTS_FILE_VARIABLE, watchAnswers } from './answer-check.ts'

/** In every test file: no answer of the program, here or in a process that the test started, may miss its schema. */
const directory = mkdtempSync(join(tmpdir(), 'castellan-answers-'))
const faultsFile = join(directory, 'faults')
writeFileSync(faultsFile, '')
chmodSync(directory, 0o755)
chmodSync(faultsFile, 0o666)
process.env[FAULTS_FILE_VARIABLE] = faultsFile
watchAnswers(faultsFile)

function requireNoFaults(): void {
  const faults = readFileSync(faultsFile, 'utf8')
  if (faults === '') return
  writeFileSync(faultsFile, '')
  throw new Error(`answers that miss the output schema of their tool:\n${faults}`)
}

afterEach(requireNoFaults)
afterAll(() => {
  requireNoFaults()
  rmSync(directory, { recursive: true, force: true })
})
