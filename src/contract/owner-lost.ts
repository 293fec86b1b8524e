/** Of a call whose answer will never come: nobody here knows what became of it. */
export const lostUnderWay = (what: string): string =>
  `The process that owned the state ended while ${what} was in progress; it may or may not have taken effect. Check, then call again.`

/** Of a call that came after the end of its connection: nothing was done. */
export const notStarted = (what: string): string =>
  `The process that owned the state has ended, and ${what} was not started. Call again.`
