/** Query words without meaning for the search. */
export const stopWords: ReadonlySet<string> = new Set(
  (
    'a an the of to in on at for from with by and or as into onto out off over up is are am was were be been being do does did ' +
    'i me my mine we us our you your it its this that these those there here please want wants need needs how can could ' +
    'should would will shall may might must what which who whom whose when where why if then so but not no just some any ' +
    'something anything thing things have has had let lets about via using use way also them they their he she his her ' +
    'der die das den dem ein eine einen einem und von mit im am zu fur ist ' +
    'le la les un une des du de en et dans pour sur el los las una y por para con del al o os as um uma da do em e ' +
    'il lo gli di в на и с из для по'
  ).split(' '),
)
