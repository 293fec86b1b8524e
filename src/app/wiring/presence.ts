import type { Presence } from '../../tools/runtime/presence.ts'

/** Usable before the store is open; until then nobody has shown a key. */
export function presenceOnce(opened: Promise<Presence>): Presence {
  let known: Presence | undefined
  opened.then(
    (presence) => {
      known = presence
    },
    () => {},
  )
  const later = (begin: (presence: Presence) => () => void): (() => void) => {
    let end = (): void => {}
    let isOver = false
    opened.then(
      (presence) => {
        if (!isOver) end = begin(presence)
      },
      () => {},
    )
    return () => {
      isOver = true
      end()
    }
  }
  return {
    watch: (principal) => known?.watch(principal) ?? later(({ watch }) => watch(principal)),
    onRevoked: (listener) => later(({ onRevoked }) => onRevoked(listener)),
  }
}
