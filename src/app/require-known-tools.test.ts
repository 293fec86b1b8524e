import { expect, test } from 'vitest'
import { loadConfig } from './config.ts'
import { requireKnownTools } from './require-known-tools.ts'

const checked = async (env: Readonly<Record<string, string>>): Promise<void> =>
  requireKnownTools(await loadConfig({ workingDirectory: '/', env: { HOME: '/', ...env } }))

test('names that judges are told of are those of tools, each in one list', async () => {
  await checked({ CASTELLAN_JUDGING_SKIP: 'fs.write', CASTELLAN_JUDGING_ALWAYS: 'fs.read,web.fetch' })
  await expect(checked({ CASTELLAN_JUDGING_ALWAYS: 'fs.reed' })).rejects.toMatchObject({
    code: 'ERR_CONFIG_INVALID',
    message: expect.stringContaining("judging.always has 'fs.reed', which is not a tool. Did you mean fs.read?"),
  })
  await expect(
    checked({ CASTELLAN_JUDGING_SKIP: 'fs.read', CASTELLAN_JUDGING_ALWAYS: 'fs.read' }),
  ).rejects.toMatchObject({ message: expect.stringContaining('judging.always has as well') })
})
