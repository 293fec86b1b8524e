/**
 * A process that changes a vault beside others: `vault-process.ts ROOT append NAME COUNT` adds lines to one note,
 * `vault-process.ts ROOT hold` takes the note's lock, says so and keeps it until its input ends, then writes,
 * `vault-process.ts ROOT die` is killed at the moment when the new content would take the place of the old.
 */
import { once } from 'node:events'
import { LOCAL_TENANT } from '../../src/contract/principal.ts'
import type { VaultPath } from '../../src/domains/vault/ports.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { createVaultStore } from '../../src/stores/files/vault-store.ts'
import { openFileLock } from '../../src/stores/sqlite/file-lock.ts'

const [root, what, name, count] = process.argv.slice(2)
const store = createVaultStore({ rootOf: () => root!, openFileLock })
const append = (line: string, before: () => Promise<unknown> = async () => {}) =>
  store.update(
    LOCAL_TENANT,
    'shared.md' as VaultPath,
    async (current) => {
      await before()
      return { content: Buffer.concat([(await current?.read()) ?? Buffer.of(), Buffer.from(line)]), answer: undefined }
    },
    new AbortController().signal,
  )

if (what === 'append') for (let turn = 0; turn < Number(count); turn++) await append(`${name} ${turn}\n`)
if (what === 'hold') {
  await append('held\n', async () => {
    console.log('held')
    process.stdin.resume()
    await once(process.stdin, 'end')
  })
}
if (what === 'die') {
  installFaultPlan((point) => {
    if (point === 'file.replace') process.kill(process.pid, 'SIGKILL')
  })
  await append('never seen\n')
}
