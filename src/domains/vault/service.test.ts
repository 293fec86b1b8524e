import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tenantId } from '../../contract/principal.ts'
import { systemClock } from '../../kernel/clock.ts'
import { createVaultStore } from '../../stores/files/vault-store.ts'
import { openFileLock } from '../../stores/sqlite/file-lock.ts'
import { createVaultService } from './service.ts'

let top: string
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'castellan-vault-files-'))
})
afterEach(() => rmSync(top, { recursive: true, force: true }))

const filesOf = (isEnabled = true) =>
  createVaultService({
    store: createVaultStore({ rootOf: (tenant) => join(top, tenant), openFileLock }),
    clock: systemClock,
    isEnabled,
    extensions: ['md'],
    excludedFolders: ['.git'],
    visibleTeams: async () => undefined,
  }).files
const tenant = tenantId('acme')
const card = 'teams/red/cards/ann.json'

describe('files that other parts keep in a vault', () => {
  it('are written whole, replaced and deleted, whatever their extension', async () => {
    const files = filesOf()
    expect(await files.write(tenant, card, '{"name":"ann"}')).toBe(true)
    expect(await files.write(tenant, card, Buffer.from('{}'))).toBe(true)
    expect(readFileSync(join(top, 'acme', card), 'utf8')).toBe('{}')
    expect([await files.delete(tenant, card), await files.delete(tenant, card)]).toEqual([true, false])
  })

  it('keep the rules for paths', async () => {
    const files = filesOf()
    for (const path of ['../x.json', '/x.json', 'teams/../../x', '.git/hooks/x', '.castellan/x', 'teams//x', 'a\\b']) {
      await expect(files.write(tenant, path, 'x'), path).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
      await expect(files.delete(tenant, path), path).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
    }
  })

  it('are none while the vault is turned off', async () => {
    const files = filesOf(false)
    expect([await files.write(tenant, card, '{}'), await files.delete(tenant, card)]).toEqual([false, false])
  })
})
