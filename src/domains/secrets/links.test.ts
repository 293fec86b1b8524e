import { expect, it } from 'vitest'
import { localOwner } from '../../contract/principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import { createSecretLinks } from './links.ts'

it('the words of its writer are noted before a secret is stored with them', async () => {
  const events: string[] = []
  const note = (event: string) => async (): Promise<void> => void events.push(event)
  const deps = {
    store: { deleteLinksBefore: async () => {}, insertLink: note('link') },
    secrets: { newReference: () => 'secret:sec_a', put: note('secret') },
    random: { bytes: (length: number) => Buffer.alloc(length) },
    origin: async () => 'http://localhost',
    warning: () => undefined,
  }
  const links = createSecretLinks(deps as never)
  const call = {
    principal: localOwner,
    nowMs: 0,
    transact: <T>(work: (tx: WriteTx) => Promise<T>) => work({} as WriteTx),
    writesTo: async (context: string) => void events.push(`words in ${context}`),
    record: () => {},
    warn: () => {},
  }
  const { reference } = await links.createForValue(call, { purpose: 'obey' })
  expect([reference, ...events]).toEqual(['secret:sec_a', 'words in secret:sec_a', 'secret', 'link'])
})
