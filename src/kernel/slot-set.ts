/**
 * A set for objects that come and go all the time. The engine's Set replaces its table now and then, and the old table refers to
 * the new one: if an old table is promoted, everything in the later ones survives until the next full collection. Here nothing
 * refers to removed objects. An object knows its slot; iterating sees the objects that were present when it began.
 */
export class SlotSet<Item extends object> {
  readonly #slot = Symbol('slot')
  readonly #items: Item[] = []

  get size(): number {
    return this.#items.length
  }

  add(item: Item): void {
    const placed = item as Placed
    if ((placed[this.#slot] ?? ABSENT) !== ABSENT) return
    placed[this.#slot] = this.#items.length
    this.#items.push(item)
  }

  delete(item: Item): boolean {
    const placed = item as Placed
    const slot = placed[this.#slot] ?? ABSENT
    if (slot === ABSENT) return false
    placed[this.#slot] = ABSENT
    const last = this.#items.pop()!
    if (last === item) return true
    this.#items[slot] = last
    ;(last as Placed)[this.#slot] = slot
    return true
  }

  [Symbol.iterator](): IterableIterator<Item> {
    return this.#items.slice().values()
  }
}

type Placed = Record<symbol, number | undefined>
const ABSENT = -1
