import { readFileSync } from 'node:fs'

/** Chooses for each workspace the processors that its commands begin on; none where it may have all there are. */
export function createProcessors(status = readFileSync('/proc/self/status', 'utf8')) {
  const all = listed(/^Cpus_allowed_list:\s*(.*)$/m.exec(status)?.[1] ?? '')
  let next = 0
  return (vcpus: number): readonly number[] => {
    const count = Math.max(1, Math.ceil(vcpus))
    if (count >= all.length) return []
    const first = next
    next = (next + count) % all.length
    return Array.from({ length: count }, (_, index) => all[(first + index) % all.length]!)
  }
}

/** As the kernel writes lists: `0-3,8`. */
function listed(text: string): number[] {
  return text
    .split(',')
    .filter(Boolean)
    .flatMap((part) => {
      const [first, last = first] = part.split('-').map(Number)
      return Array.from({ length: last! - first! + 1 }, (_, index) => first! + index)
    })
}
