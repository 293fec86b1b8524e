import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import type { Workspace } from './ports.ts'
import { createWorkspaceLocks } from './workspace-locks.ts'

const never = new AbortController().signal
const workspace = { id: 'w', name: 'w' } as Workspace
const other = { id: 'x', name: 'x' } as Workspace

function gate() {
  let open: () => void = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

describe('the locks of workspaces', () => {
  it('lets one operation at a time at a workspace, in order, and does not mind other workspaces', async () => {
    const locks = createWorkspaceLocks()
    const first = gate()
    const seen: string[] = []
    const work =
      (name: string, until: Promise<void> = Promise.resolve()) =>
      async () => {
        seen.push(`+${name}`)
        await until
        seen.push(`-${name}`)
      }
    const all = [
      locks.exclusive(workspace, never, work('a', first.opened)),
      locks.exclusive(workspace, never, work('b')),
      locks.exclusive(workspace, never, work('c')),
    ]
    await locks.exclusive(other, never, work('x'))
    first.open()
    await Promise.all(all)
    expect(seen).toEqual(['+a', '+x', '-x', '-a', '+b', '-b', '+c', '-c'])
  })

  it('goes on after a failure, and lets a caller give up waiting', async () => {
    const locks = createWorkspaceLocks()
    const first = gate()
    const failing = locks.exclusive(workspace, never, async () => {
      await first.opened
      throw new Error('failed')
    })
    const controller = new AbortController()
    const waiting = locks.exclusive(workspace, controller.signal, async () => 'ran')
    const last = locks.exclusive(workspace, never, async () => 'ran')
    controller.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'ERR_CANCELLED' })
    first.open()
    await expect(failing).rejects.toThrow('failed')
    expect(await last).toBe('ran')
  })

  it('refuses a crowd', async () => {
    const locks = createWorkspaceLocks()
    const first = gate()
    const held = locks.exclusive(workspace, never, () => first.opened)
    const waiting = Array.from({ length: limits.workspaceQueueMax }, () =>
      locks.exclusive(workspace, never, async () => {}),
    )
    await expect(locks.exclusive(workspace, never, async () => {})).rejects.toMatchObject({ code: 'ERR_BUSY' })
    first.open()
    await Promise.all([held, ...waiting])
  })

  it('destroys at once: those that wait are turned away, those beside are ended, and two are one', async () => {
    const locks = createWorkspaceLocks()
    const held = gate()
    const operation = locks.exclusive(workspace, never, () => held.opened)
    const waiting = locks.exclusive(workspace, never, async () => 'ran')
    const shared = locks.shared(workspace, never, (signal) => {
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
    })
    let count = 0
    const end = gate()
    const destroy = () =>
      locks.destroy(workspace, async () => {
        count++
        await end.opened
      })
    const both = [destroy(), destroy()]
    const gone = { code: 'ERR_WORKSPACE_STATE' }
    await expect(waiting).rejects.toMatchObject(gone)
    await expect(shared).rejects.toMatchObject(gone)
    await expect(locks.exclusive(workspace, never, async () => 'ran')).rejects.toMatchObject(gone)
    await expect(locks.shared(workspace, never, async () => 'ran')).rejects.toMatchObject(gone)
    end.open()
    await Promise.all(both)
    expect(count).toBe(1)
    held.open()
    await operation
    await destroy()
    expect(count).toBe(2)
  })

  it('knows who is at work, and whether that is another than the holder of the lock', async () => {
    const locks = createWorkspaceLocks()
    const seen = (inTurn = false) => locks.isAtWork('w', inTurn)
    expect(seen()).toBe(false)
    await locks.exclusive(workspace, never, async () => expect([seen(), seen(true)]).toEqual([true, false]))
    await locks.destroy(workspace, async () => {
      await Promise.resolve()
      expect([seen(), seen(true)]).toEqual([true, true])
    })
    await locks.making('w', async () => expect([seen(), seen(true)]).toEqual([true, true]))
    await expect(locks.making('w', () => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
    expect([seen(), seen(true), locks.isAtWork('x', false)]).toEqual([false, false, false])
  })
})
