import { readFileSync } from 'node:fs'

/** Assigns each workspace the CPUs that its commands start on; an empty list if it may use all of them. */
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

/** Parses the kernel's list format, such as `0-3,8`. */
function listed(text: string): number[] {
  return text
    .split(',')
    .filter(Boolean)
    .flatMap((part) => {
      const [first, last = first] = part.split('-').map(Number)
      return Array.from({ length: last! - first! + 1 }, (_, index) => first! + index)
    })
}
