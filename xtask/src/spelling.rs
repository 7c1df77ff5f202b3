//! American spelling, in documents, comments, messages and names.

/// British beginnings of words, and how they begin in American English. "Cancelled" and "signalled" are left out:
/// American dictionaries have both spellings.
const BEGINNINGS: [(&str, &str); 58] = [
    ("acknowledgement", "acknowledgment"),
    ("aluminium", "aluminum"),
    ("analyse", "analyze"),
    ("analysing", "analyzing"),
    ("apologis", "apologiz"),
    ("armour", "armor"),
    ("artefact", "artifact"),
    ("authoris", "authoriz"),
    ("behaviour", "behavior"),
    ("catalogue", "catalog"),
    ("categoris", "categoriz"),
    ("centralis", "centraliz"),
    ("centre", "center"),
    ("characteris", "characteriz"),
    ("colour", "color"),
    ("customis", "customiz"),
    ("defence", "defense"),
    ("deserialis", "deserializ"),
    ("emphasis", "emphasiz"),
    ("favour", "favor"),
    ("fibre", "fiber"),
    ("finalis", "finaliz"),
    ("flavour", "flavor"),
    ("generalis", "generaliz"),
    ("harbour", "harbor"),
    ("honour", "honor"),
    ("humour", "humor"),
    ("initialis", "initializ"),
    ("instalment", "installment"),
    ("labelled", "labeled"),
    ("labelling", "labeling"),
    ("labour", "labor"),
    ("learnt", "learned"),
    ("licence", "license"),
    ("localis", "localiz"),
    ("maximis", "maximiz"),
    ("metres", "meters"),
    ("minimis", "minimiz"),
    ("modelled", "modeled"),
    ("modelling", "modeling"),
    ("neighbour", "neighbor"),
    ("normalis", "normaliz"),
    ("offence", "offense"),
    ("optimis", "optimiz"),
    ("organis", "organiz"),
    ("practise", "practice"),
    ("prioritis", "prioritiz"),
    ("programme", "program"),
    ("randomis", "randomiz"),
    ("recognis", "recogniz"),
    ("serialis", "serializ"),
    ("spoilt", "spoiled"),
    ("standardis", "standardiz"),
    ("summaris", "summariz"),
    ("synchronis", "synchroniz"),
    ("travelled", "traveled"),
    ("utilis", "utiliz"),
    ("virtualis", "virtualiz"),
];

/// Words that begin so and are American all the same.
const AMERICAN: [&str; 5] = ["emphasis", "programmed", "programmer", "programmers", "programmable"];

/// Whole words.
const WORDS: [(&str, &str); 9] = [
    ("amongst", "among"),
    ("enrol", "enroll"),
    ("enrolment", "enrollment"),
    ("enrolments", "enrollments"),
    ("enrols", "enrolls"),
    ("fulfil", "fulfill"),
    ("fulfils", "fulfills"),
    ("grey", "gray"),
    ("whilst", "while"),
];

/// How a British `word`, in lower case, is spelled; `None` for all others.
pub(crate) fn american(word: &str) -> Option<String> {
    if AMERICAN.contains(&word) {
        return None;
    }
    if let Some((_, american)) = WORDS.iter().find(|(british, _)| word == *british) {
        return Some((*american).to_owned());
    }
    BEGINNINGS.iter().find_map(|(british, american)| {
        word.strip_prefix(british).map(|rest| format!("{american}{rest}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn british_words_are_known_with_their_endings() {
        assert_eq!(american("colours").as_deref(), Some("colors"));
        assert_eq!(american("recognised").as_deref(), Some("recognized"));
        assert_eq!(american("enrolment").as_deref(), Some("enrollment"));
    }

    #[test]
    fn american_words_are_left_alone() {
        for word in ["enrolled", "emphasis", "programmer", "otherwise", "noise", "promise"] {
            assert_eq!(american(word), None, "{word}");
        }
    }
}
