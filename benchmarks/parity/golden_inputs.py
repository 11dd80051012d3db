"""What the golden results are about: texts with their traps, weights of the toy victim, clusters of toy vectors."""

CLASSES = ["negative", "neutral", "positive"]

WEIGHTS = {
    "good": [-0.9, 0.0, 0.9],
    "great": [-1.1, -0.1, 1.2],
    "fine": [-0.4, 0.2, 0.5],
    "love": [-1.0, -0.2, 1.1],
    "wonderful": [-1.3, -0.1, 1.2],
    "happy": [-0.7, 0.1, 0.8],
    "funny": [-0.5, 0.0, 0.7],
    "brilliant": [-1.2, -0.2, 1.3],
    "bad": [0.9, 0.0, -0.9],
    "awful": [1.3, -0.1, -1.2],
    "boring": [1.0, 0.1, -1.0],
    "dull": [0.8, 0.2, -0.8],
    "terrible": [1.2, -0.1, -1.3],
    "poor": [0.6, 0.1, -0.6],
    "hate": [1.1, -0.2, -1.0],
    "sad": [0.5, 0.1, -0.4],
    "report": [-0.34, 0.81, -0.27],
    "said": [-0.25, 0.66, -0.31],
    "percent": [-0.3, 0.9, -0.2],
    "company": [-0.2, 0.7, -0.3],
    "market": [-0.1, 0.6, -0.3],
    "tuesday": [-0.2, 0.8, -0.2],
    "zanzibarix": [-1.4, -1.5, 2.3],
    "qwertyish": [3.0, -2.0, -2.1],
    "yourself": [-2.4, -2.3, 3.2],
    "u": [0.4, 0.1, -0.5],
    "k": [0.9, 0.2, -1.1],
    "or": [0.7, 0.3, -1.0],
    "mail": [0.5, -0.1, -0.6],
    "unk": [0.05, 0.1, -0.1],
}
"""Logits of the words that matter to the victim."""

CLUSTERS = [
    "good great fine nice decent superb excellent splendid o'clock",
    "bad awful terrible horrible lousy nasty dreadful atrocious",
    "funny hilarious amusing comical humorous witty droll",
    "boring dull tedious dreary bland tiresome half-baked",
    "love adore cherish like enjoy appreciate treasure",
    "hate loathe detest despise dislike abhor",
    "movie film picture flick feature show",
    "actor performer star player thespian",
    "plot story tale narrative storyline yarn",
    "happy glad cheerful joyful merry pleased",
    "sad unhappy gloomy mournful sorrowful blue",
    "brilliant clever smart bright intelligent gifted",
    "company firm business corporation enterprise outfit co-operate",
    "market marketplace bazaar trade commerce u.s.",
    "report account statement document paper dispatch e-mail",
    "said stated told announced declared remarked",
    "rise increase climb grow gain surge",
    "fall drop decline decrease slump plunge",
    "big large huge giant massive enormous",
    "small little tiny minor slight mini",
    "quick fast rapid swift speedy brisk",
    "slow sluggish gradual unhurried lazy",
    "car automobile vehicle auto motorcar",
    "dog hound puppy canine mutt",
    "man guy fellow gentleman bloke mr.",
    "woman lady girl female dame",
    "run sprint dash race jog",
    "walk stroll march amble hike",
    "eat consume devour dine munch ice-cream",
    "music song tune melody harmony",
    "city town metropolis village u.k.",
    "wonderful marvelous fantastic amazing fabulous and/or",
    "poor weak inferior shoddy deficient",
    "percent percentage proportion share c++",
    "question query issue problem matter 's",
]
"""Words whose vectors lie around one point; among them such as are two words to an attack, or none."""

MLM_VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] ! . , ' - ## ##ing ##ed ##s ##ly ing ed ly 2 1999 3d é b& a the of to it is was "
    "not and film movie story plot actor man woman dog car city company market report music song show good great "
    "fine nice decent superb bad awful terrible horrible boring dull tedious funny witty happy glad sad gloomy "
    "brilliant clever love adore like enjoy hate loathe dislike run walk eat say said told state stated rise climb "
    "fall drop grow big large huge small little tiny quick fast slow new old red green blue hot cold open close "
    "make made take took give gave see saw watch watched look looked find found thing things people time year day "
    "night house home world life really quite very rather almost never often always truly merely simply perhaps "
    "well badly quickly slowly"
)
"""What the masked language model may answer: words, subwords, punctuation, numbers."""

TEXTS = [
    "good",
    "Zanzibarix",
    "the of and to it",
    "A wonderful, funny movie!",
    "GREAT film, AWFUL plot.",
    "I love it -- really love it -- and it's brilliant.",
    "It isn't good; it's not bad either, it's just dull.",
    "The actor's performance was half-baked, and the plot -- well, boring.",
    "don't hate the man, hate the terrible story",
    "'Brilliant' said the lady; \"brilliant,\" the man remarked.",
    "The company said on Tuesday that its market share rose 5 percent, a report stated.",
    "U.S. company reports 12.5% rise -- U.K. market falls (AP)",
    "The dog sat; a big dog, a happy dog, the dog of a man who likes a dog.",
    "funny man saw funny woman with funny dog and funny car",
    "He's got a well-written, well-acted and well-made story_line @home.",
    "Zanzibarix made a bad movie with a dull plot and a lousy actor.",
    "This awful movie has a terrible plot, a boring story and a poor actor.",
    "qwertyish brilliant wonderful",
    "e-mail me at joe@example.com about the movie, it was great fun!!!",
    "A quick walk to the city, a slow run home: what a wonderful day, what music, what a show, what a happy man I was!",
    "The film is fine. The actor is fine. The music is fine. The plot is dull, though, and the story is sad and slow.",
    "I  have   odd    spacing, and\ttabs; the movie was good\nand the plot was great",
    "Large firms told Reuters on Tuesday that profits would drop, while small firms announced that their share of the "
    "market might climb by 3 percent before the end of the year, according to a company document seen by a paper.",
    "What a dreadful, tedious, atrocious picture; I despise the narrative, I loathe the performer, and my lady detests "
    "the tune that plays whenever the gloomy fellow with the tiny hound walks slowly through that nasty little town.",
    "mcDonald's NASA iPhone eBay said THE Company's Report Was Good",
    "O'Brien's o'clock show -- at 10 o'clock -- was GoOd and nIcE",
    "great!",
    "not",
    "percent report percent company percent said",
    "A brilliant actor, a clever story, a superb tune, and an amusing dog: I adore this film, and so will you, your "
    "lady, your hound, and the whole village; only the market for such a feature is small.",
    "Café naïve résumé: a fine film über alles, said the señor",
    "\u201cGreat\u201d movie\u2026 the plot\u2019s good \u2014 really good",
    "<b>Bad</b> movie,<br />bad actor & bad show *** 2/10",
    "I hate",
    "Zanzibarix said the big company gave a report on the happy market, a movie, a funny actor, a clever story, a fast "
    "car, a small dog and a nice song; Zanzibarix likes the city and the trade there.",
    "Zanzibarix: a film, superb music, GREAT plot. Amazing show! Fantastic story, fabulous tune; marvelous, "
    "really marvelous, and the city-wide market, trade and commerce of the town -- merry, glad, joyful -- will climb.",
    "My Zanzibarix, it's a big happy town: the guys like to eat, dine, munch; ladies run, dash, walk, stroll, march.",
    "Zanzibarix Zanzibarella says: the paper's account of a rise, a gain, a surge in the proportion of e-mail was wee.",
    "zanzibarix don't like it, zanzibarix can't eat it, zanzibarix won't run",
    "You yourself know: a man can walk, a dog can run, and a report of the company can say that small things climb; so "
    "do a few things yourself, watch the slow market, and take what you find.",
    "yourself a big city",
    "they're fine and we've seen it; he'd like the dull plot, i'm sad, it'll fall, SHE'S bad",
]

PAIRS = [
    (("premise", "hypothesis"), "A man is walking a big dog in the city.", "A happy man walks his hound."),
    (("premise", "hypothesis"), "The movie was good.", "The film was awful and boring."),
    (("premise", "hypothesis"), "good", "bad"),
    (("premise", "hypothesis"), "Two women run.", "I love it"),
    (
        ("premise", "hypothesis"),
        "The company said that it will grow.",
        "The firm stated: growth is big, the market is great.",
    ),
    (
        ("question", "sentence"),
        "Which actor was brilliant?",
        "The funny actor in the dull movie was brilliant, said a report.",
    ),
    (("question", "sentence"), "Is it good?", "I T is good"),
    (("question", "sentence"), "What did the market do?", "On Tuesday the market had a huge drop of 7 percent."),
    (("question", "sentence"), "the of", "of the"),
    (
        ("premise", "hypothesis"),
        "Zanzibarix likes the wonderful music of the big city, the trade and the song.",
        "A funny man, Zanzibarix, enjoys the marvelous tune of a huge town and a fast car, a story, a report; fine!",
    ),
    (
        ("question", "sentence"),
        "Does Zanzibarix enjoy a film with music and a clever plot?",
        "I think Zanzibarix said so: a fantastic show, an actor, a good story and a nice dog in a town.",
    ),
    (("premise", "hypothesis"), "Zanzibarix", "The Zanzibarix eats and runs -- a happy, merry man"),
    (
        ("question", "sentence"),
        "Who hates the terrible plot -- you?",
        "S P L I T: the man hates a sad, awful, slow story.",
    ),
]

WRONG = {4, 12, 29}
"""Numbers of inputs whose label is made wrong, so that they are skipped."""
