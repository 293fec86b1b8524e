import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { systemClock } from '../kernel/clock.ts'
import { systemRandom } from '../kernel/random.ts'
import { startLauncher } from './launcher.ts'
import { runCommand } from './run-command.ts'
import { createStorage } from './storage.ts'

const COPIES = 30
let base = ''
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'castellan-storage-'))
})
afterEach(() => rmSync(base, { recursive: true }))

it('a copy of a tree in which a folder and a link change places has nothing of the host', async () => {
  const root = join(base, 'state')
  const outside = join(base, 'host')
  mkdirSync(root)
  const storage = await createStorage({
    root,
    mounts: join(base, 'roots'),
    kind: 'plain',
    launcher: startLauncher({ enterSeconds: 20 }),
    setQuota: async () => {},
    run: runCommand,
    clock: systemClock,
    random: systemRandom,
  })
  await storage.create('w', { bytesMax: 0, group: 1 }, [])
  const [own, link] = ['place', 'link'].map((name) => join(root, 'store/active/w/upper', name))
  // Both have the same names, so that a process that followed a link out would not notice.
  for (const [folder, content] of [
    [own!, 'own'],
    [outside, 'secret of the host'],
  ] as const) {
    mkdirSync(folder)
    for (let number = 0; number < 100; number++) writeFileSync(join(folder, String(number)), content)
  }
  symlinkSync(outside, link!)
  const script = join(import.meta.dirname, '../../test/support/swap-names.pl')
  const swapper = spawn('perl', [script, own!, link!], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(swapper, 'exit')
  const swaps = text(swapper.stdout)
  // A copy may fail because its source vanished. It must then leave no layer.
  for (let copy = 0; copy < COPIES; copy++) await storage.copyToLayer('w', `layer-${copy}`, 1).catch(() => {})
  swapper.stdin.end()
  await ended
  expect(Number(await swaps)).toBeGreaterThan(COPIES)
  await storage.copyToLayer('w', 'layer', 1)
  expect(filesWith('own').length).toBeGreaterThanOrEqual(100)
  expect(filesWith('secret')).toEqual([])

  /** Does not follow links. */
  function filesWith(word: string): string[] {
    const { stdout } = spawnSync('grep', ['-rl', word, join(root, 'store/layers')], { encoding: 'utf8' })
    return stdout.split('\n').filter(Boolean)
  }
})
