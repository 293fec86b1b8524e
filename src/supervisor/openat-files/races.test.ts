import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { makeFileTree, textOf } from '../../../test/support/file-tree.ts'
import { isLongRun } from '../../../test/support/long-run.ts'
import { AppError } from '../../contract/app-error.ts'

/**
 * A second process swaps a directory with a link that leads out, as fast as it can. `outside` holds files that must be neither
 * read nor changed.
 */
const CANARY = 'canary'
const ROUNDS = isLongRun ? 2_000 : 120
vi.setConfig({ testTimeout: isLongRun ? 900_000 : 60_000 })

let tree: Awaited<ReturnType<typeof makeFileTree>>
beforeEach(async () => {
  tree = await makeFileTree()
  await makeCanaries()
})
afterEach(() => tree[Symbol.asyncDispose]())

const inRoot = (path: string): string => join(tree.root, path)

async function makeCanaries(): Promise<void> {
  await mkdir(join(tree.outside, 'tree/sub'), { recursive: true })
  for (const path of ['file', 'tree/f0', 'tree/f1', 'tree/sub/f2']) await writeFile(join(tree.outside, path), CANARY)
}

async function expectCanariesUntouched(): Promise<void> {
  const entries = await readdir(tree.outside, { recursive: true, withFileTypes: true })
  const paths = entries.map(({ parentPath, name }) => join(parentPath, name).slice(tree.outside.length + 1))
  expect(paths.toSorted()).toEqual(['file', 'tree', 'tree/f0', 'tree/f1', 'tree/sub', 'tree/sub/f2'])
  for (const entry of entries) {
    if (entry.isFile()) expect(await readFile(join(entry.parentPath, entry.name), 'utf8')).toBe(CANARY)
  }
}

/** Runs `work` while another process works on these paths. Returns how often that process succeeded. */
async function disturbing(paths: readonly string[], work: () => Promise<void>): Promise<number> {
  const script = join(import.meta.dirname, '../../../test/support/swap-names.pl')
  const other = spawn('perl', [script, ...paths], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(other, 'exit')
  const printed = text(other.stdout)
  try {
    await work()
  } finally {
    other.stdin.end()
    await ended
  }
  return Number(await printed)
}

/** Swaps the two while `work` runs, and ensures at least one swap before it and one after it. */
async function whileSwapping(first: string, second: string, work: () => Promise<void>): Promise<void> {
  const swapCount = await disturbing([first, second], async () => {
    await seenBothWays(first)
    await work()
    await seenBothWays(first)
  })
  expect(swapCount).toBeGreaterThan(100)
}

/** A reader that uses plain paths sees the inside and the outside, so the race is real. */
async function seenBothWays(directory: string): Promise<void> {
  const seen = new Set<string>()
  const look = async (): Promise<string[]> => {
    for (let round = 0; round < 100; round += 1)
      seen.add(await readFile(join(directory, 'file'), 'utf8').catch(() => ''))
    return [...seen]
  }
  await expect.poll(look, { interval: 1 }).toEqual(expect.arrayContaining(['inside', CANARY]))
}

/** The result of a call, or the code of its AppError. Any other error fails the test. */
async function outcomeOf(work: Promise<unknown>): Promise<unknown> {
  try {
    return await work
  } catch (error) {
    expect(error).toBeInstanceOf(AppError)
    return (error as AppError).code
  }
}

const expectedCodes = ['ERR_FILE_NOT_FOUND', 'ERR_BUSY', 'ERR_NOT_A_DIRECTORY', 'ERR_ALREADY_EXISTS']

describe('while a directory is exchanged with a link that leads out', () => {
  beforeEach(async () => {
    await mkdir(inRoot('x/tree/sub'), { recursive: true })
    await writeFile(inRoot('x/file'), 'inside')
    await symlink('../outside', inRoot('x.link'))
  })
  const swapping = (work: () => Promise<void>): Promise<void> => whileSwapping(inRoot('x'), inRoot('x.link'), work)

  it('only the inside is read, listed and described', async () => {
    const outcomes = new Set<unknown>()
    await swapping(async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        outcomes.add(await outcomeOf(tree.files.read('/x/file').then(textOf)))
        outcomes.add(
          await outcomeOf(tree.files.list('/x', 9).then(({ entries }) => entries.map(({ name }) => name).join())),
        )
        const { size } = (await outcomeOf(tree.files.stat('/x/../x/./tree/../file'))) as { size?: number }
        expect([undefined, 'inside'.length]).toContain(size)
      }
    })
    const possible = ['inside', 'file,tree', ...expectedCodes]
    expect([...outcomes].filter((outcome) => !possible.includes(outcome as string))).toEqual([])
    expect(outcomes).toContain('inside')
  })

  it('only the inside is written, and directories are made only there', async () => {
    const outcomes = new Set<unknown>()
    await swapping(async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        outcomes.add(await outcomeOf(tree.files.write('/x/new', Buffer.from('mine'))))
        outcomes.add(await outcomeOf(tree.files.write(`/x/tree/made${round % 7}/f`, Buffer.from('mine'))))
        outcomes.add(await outcomeOf(tree.files.makeDirectory(`/x/directory${round % 7}`)))
      }
    })
    await expectCanariesUntouched()
    expect(outcomes).toContainEqual({ bytes: 4 })
    const left = await readdir(tree.root, { recursive: true })
    expect(left.filter((name) => name.endsWith('.tmp'))).toEqual([])
  })

  it('only the inside is moved', async () => {
    const outcomes = new Set<unknown>()
    await swapping(async () => {
      await writeFile(inRoot('come'), 'mine')
      for (let round = 0; round < ROUNDS; round += 1) {
        outcomes.add(await outcomeOf(tree.files.rename('/x/tree', '/gone')))
        outcomes.add(await outcomeOf(tree.files.rename('/gone', '/x/tree')))
        outcomes.add(await outcomeOf(tree.files.rename('/come', '/x/tree/f0')))
        outcomes.add(await outcomeOf(tree.files.rename('/x/tree/f0', '/come')))
      }
    })
    await expectCanariesUntouched()
    expect([...outcomes].filter((one) => one !== undefined && !expectedCodes.includes(one as string))).toEqual([])
    expect(outcomes).toContain(undefined)
  })

  it('only the inside is removed', async () => {
    const outcomes = new Set<unknown>()
    await swapping(async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        for (const path of ['/x/tree/f0', '/x/tree/sub/f2'])
          await outcomeOf(tree.files.write(path, Buffer.from('mine')))
        outcomes.add(await outcomeOf(tree.files.remove('/x/tree', { recursive: true })))
      }
    })
    await expectCanariesUntouched()
    expect(outcomes).toContain(undefined)
  })
})

it('removes a tree, a directory of which is exchanged with a link meanwhile, without following it', async () => {
  await writeFile(join(tree.outside, 'tree/file'), CANARY)
  /** Creates the link to swap. The new tree is built aside and then moved into place. */
  const prepare = async (): Promise<void> => {
    await outcomeOf(tree.files.rename('/link', '/retired'))
    for (const path of ['/top', '/retired']) await outcomeOf(tree.files.remove(path, { recursive: true }))
    await symlink(join(tree.outside, 'tree'), inRoot('link'))
    for (const name of ['file', 'f0', 'sub/f2'])
      await tree.files.write(`/staged/swapped/${name}`, Buffer.from('inside'))
    await symlink(join(tree.outside, 'tree'), inRoot('staged/beside'))
    await tree.files.rename('/staged', '/top')
  }
  const outcomes = new Set<unknown>()
  await prepare()
  await whileSwapping(inRoot('top/swapped'), inRoot('link'), async () => {
    for (let round = 0; round < ROUNDS / 2; round += 1) {
      outcomes.add(await outcomeOf(tree.files.remove('/top', { recursive: true })))
      await prepare()
    }
  })
  await rm(join(tree.outside, 'tree/file'))
  await expectCanariesUntouched()
  expect(outcomes).toContain(undefined)
})

describe('while a directory is moved out and another comes in for it', () => {
  const isEnough = (outcomes: Map<unknown, number>): boolean =>
    (outcomes.get('ERR_BUSY') ?? 0) >= ROUNDS / 50 || outcomes.has(CANARY)
  const count = (outcomes: Map<unknown, number>, outcome: unknown): void => {
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  }

  it('.. is not taken for the way back', async () => {
    await mkdir(inRoot('a/b'), { recursive: true })
    await writeFile(inRoot('a/secret'), 'inside')
    await writeFile(inRoot('a/b/file'), 'inside')
    await mkdir(join(tree.outside, 'b'))
    await writeFile(join(tree.outside, 'b/file'), CANARY)
    await writeFile(join(tree.outside, 'secret'), CANARY)
    const outcomes = new Map<unknown, number>()
    await whileSwapping(inRoot('a/b'), join(tree.outside, 'b'), async () => {
      for (let round = 0; round < 50_000 && !(isEnough(outcomes) && outcomes.has('inside')); round += 1) {
        count(outcomes, await outcomeOf(tree.files.read('/a/b/../secret').then(textOf)))
      }
    })
    expect([...outcomes.keys()]).not.toContain(CANARY)
    expect([...outcomes.keys()]).toEqual(expect.arrayContaining(['inside', 'ERR_BUSY']))
  })

  it('what is beside it outside is not removed with it', async () => {
    const outcomes = new Map<unknown, number>()
    const prepare = async (): Promise<void> => {
      for (const path of [inRoot('top/b'), join(tree.outside, 'b')]) {
        await mkdir(path, { recursive: true }).catch(() => {})
        for (let n = 0; n < 10; n += 1) await writeFile(join(path, String(n)), '').catch(() => {})
      }
    }
    await prepare()
    const swapCount = await disturbing([inRoot('top/b'), join(tree.outside, 'b')], async () => {
      for (let round = 0; round < 5_000 && !isEnough(outcomes); round += 1) {
        count(outcomes, await outcomeOf(tree.files.remove('/top', { recursive: true })))
        const isUntouched = await readFile(join(tree.outside, 'tree/sub/f2'), 'utf8').catch(() => '')
        if (isUntouched !== CANARY) count(outcomes, CANARY)
        await prepare()
      }
    })
    expect([...outcomes.keys()]).not.toContain(CANARY)
    expect([...outcomes.keys()]).toContain('ERR_BUSY')
    expect(swapCount).toBeGreaterThan(100)
    await rm(join(tree.outside, 'b'), { recursive: true, force: true })
    await expectCanariesUntouched()
  })
})

it('gives up on a tree that something keeps filling', async () => {
  await mkdir(inRoot('top'))
  const outcomes = new Set<unknown>()
  const fillCount = await disturbing([inRoot('top/filled')], async () => {
    await expect.poll(() => readdir(inRoot('top'))).toEqual(['filled'])
    // On a busy machine it may take a while until the writer is fast enough.
    const untilMs = performance.now() + 45_000
    while (performance.now() < untilMs && !outcomes.has('ERR_BUSY')) {
      outcomes.add(await outcomeOf(tree.files.remove('/top', { recursive: true })))
      await mkdir(inRoot('top'), { recursive: true })
    }
  })
  expect(outcomes).toContain('ERR_BUSY')
  expect(fillCount).toBeGreaterThan(0)
  await tree.files.remove('/top', { recursive: true })
  expect(await readdir(tree.root)).toEqual([])
})
